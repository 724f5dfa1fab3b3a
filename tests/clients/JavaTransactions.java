import java.util.Properties;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Loops of transactions of Java's producer, as a program for the tests: brokers, topic, number of its partitions, how many rounds, how each ends.
 *
 *  "commits": one transaction a round, with one record or a few. "aborts": two a round, of which the second is aborted at once: its record is most
 *  often not sent yet, so that the transaction is empty, and ends while the markers of the first are written.
 *
 *  Records are flushed before a commit: else Java's client now and then sends EndTxn before them, and gets INVALID_TXN_STATE, of Apache Kafka too.
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
}
