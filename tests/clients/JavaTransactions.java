import java.lang.reflect.Field;
import java.util.Properties;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Stream;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.internals.Sender;
import org.apache.kafka.clients.producer.internals.TransactionManager;
import org.apache.kafka.common.serialization.StringSerializer;

/** Loops of transactions of Java's producer, as a program for the tests: brokers, topic, number of its partitions, how many rounds, how each ends.
 *
 *  "commits": one transaction a round, with one record or a few. "aborts": two a round, of which the second is aborted at once: its record is most
 *  often not sent yet, so that the transaction is empty, and ends while the markers of the first are written. "ahead": one a round, with one record,
 *  whose EndTxn the client sends before the record.
 *
 *  The client's own thread (4.3.1) first asks "are there records?", then "what is to be sent?". Where the application sends a record and commits between
 *  both, EndTxn leaves first. Of this race "ahead" plays the variant that the broker can heal, by holding the thread in between. Two others, which the
 *  client loses against every broker, are kept out of the loops. Records are flushed before a commit: else the transaction may end with the first of its
 *  records. A record that is to be aborted is sent while the thread waits for the network: else the client may end the transaction and keep the record,
 *  which then blocks all partitions of its leader until it expires, after two minutes.
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
                } else if (args[4].equals("ahead")) {
                    producer.beginTransaction();
                    commitAhead(producer, new ProducerRecord<>(args[1], round % partitions, "k", "ahead " + round));
                }
            }
        } catch (Throwable thrown) {
            System.out.println("in round " + round);
            thrown.printStackTrace(System.out);
            Runtime.getRuntime().halt(1);
        }
    }

    /** Hold the network thread where it has seen that there are no records; then send one, and commit. */
    private static void commitAhead(KafkaProducer<String, String> producer, ProducerRecord<String, String> record) throws ReflectiveOperationException {
        TransactionManager manager = (TransactionManager) part(producer, "transactionManager");
        Sender sender = (Sender) part(producer, "sender");
        Thread network = networkThread();
        for (boolean isAhead = false; !isAhead; ) {
            sender.wakeup();
            for (int turns = ThreadLocalRandom.current().nextInt(2_000); turns > 0; turns--)
                Thread.onSpinWait();
            synchronized (manager) {  // all its methods need it
                sender.wakeup();
                while (network.getState() != Thread.State.BLOCKED)
                    Thread.onSpinWait();
                isAhead = Stream.of(network.getStackTrace()).limit(1).anyMatch(frame -> frame.getMethodName().equals("nextRequest"));
                if (isAhead) {
                    producer.send(record);
                    manager.beginCommit();
                }
            }
        }
        producer.commitTransaction();  // waits for the commit that has begun
    }

    private static Object part(KafkaProducer<String, String> producer, String name) throws ReflectiveOperationException {
        Field field = KafkaProducer.class.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(producer);
    }

    private static void awaitIdleNetworkThread() {
        Thread network = networkThread();
        while (Stream.of(network.getStackTrace()).limit(1).noneMatch(StackTraceElement::isNativeMethod))
            Thread.onSpinWait();
    }

    private static Thread networkThread() {
        return Thread.getAllStackTraces().keySet().stream()
            .filter(thread -> thread.getName().startsWith("kafka-producer-network-thread")).findFirst().orElseThrow();
    }
}
