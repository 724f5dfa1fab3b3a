import java.util.Properties;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Stream;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Loops of transactions of Java's producer, as a program for the tests: brokers, topic, number of its partitions, how many rounds, how each ends.
 *
 *  "commits": one transaction a round, with one record or a few. "aborts": two a round, of which the second is aborted at once: its record is most
 *  often not sent yet, so that the transaction is empty, and ends while the markers of the first are written.
 *
 *  Two races of Java's client (4.3.1), which it loses against Apache Kafka too, are kept out. Records are flushed before a commit: else the client now
 *  and then sends EndTxn before them, and gets INVALID_TXN_STATE. A record that is to be aborted is sent while the client's own thread waits for the
 *  network: if that thread is just between "are there records?" and "what is to be sent?" it ends the transaction and keeps the record, which then
 *  blocks all partitions of its leader until it expires, after two minutes.
 */
public class JavaTransactions {
    public static void main(String[] args) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("transactional.id", "loop-" + args[4]);
        properties.put("enable.metrics.push", "false");
        int partitions = Integer.parseInt(args[2]), rounds = Integer.parseInt(args[3]);
        int round = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (; round < rounds; round++) {
                producer.beginTransaction();
                for (int record = ThreadLocalRandom.current().nextInt(3); record >= 0; record--)
                    producer.send(new ProducerRecord<>(args[1], (round + record) % partitions, "k", "committed " + round));
                producer.flush();
                producer.commitTransaction();
                if (args[4].equals("aborts")) {
                    awaitIdleNetworkThread();
                    producer.beginTransaction();
                    producer.send(new ProducerRecord<>(args[1], round % partitions, "k", "aborted " + round));
                    producer.abortTransaction();
                }
            }
        } catch (Throwable thrown) {
            System.out.println("in round " + round);
            thrown.printStackTrace(System.out);
            Runtime.getRuntime().halt(1);
        }
    }

    private static void awaitIdleNetworkThread() {
        Thread network = Thread.getAllStackTraces().keySet().stream()
            .filter(thread -> thread.getName().startsWith("kafka-producer-network-thread")).findFirst().orElseThrow();
        while (Stream.of(network.getStackTrace()).limit(1).noneMatch(StackTraceElement::isNativeMethod))
            Thread.onSpinWait();
    }
}
