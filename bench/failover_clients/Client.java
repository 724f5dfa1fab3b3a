import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Kafka's own clients for bench/failover.py: a line for each acknowledged record, record read, or commit. Everything is at its default. */
public class Client {
    static final Duration PAUSE = Duration.ofMillis(10);

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[1]);
        if (args[0].equals("produce")) {
            produce(new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer()), args[2]);
        }
        TopicPartition partition = new TopicPartition(args[2], 0);
        if (args[0].equals("commit")) {
            settings.put("group.id", args[3]);
            settings.put("enable.auto.commit", "false");
        }
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        if (args[0].equals("consume")) {
            consumer.assign(List.of(partition));
            consumer.seekToEnd(List.of(partition));
            while (true) {
                consumer.poll(Duration.ofSeconds(1)).forEach(record -> System.out.println("."));
            }
        }
        consumer.subscribe(List.of(args[2]));
        for (long offset = 0; ; offset++) {
            consumer.poll(PAUSE);
            try {
                consumer.commitSync(Map.of(partition, new OffsetAndMetadata(offset)));
                System.out.println(".");
            } catch (KafkaException failed) {
                System.err.println(failed);
            }
        }
    }

    static void produce(KafkaProducer<byte[], byte[]> producer, String topic) throws InterruptedException {
        while (true) {
            producer.send(new ProducerRecord<>(topic, 0, null, new byte[] {'x'}), (sent, failed) -> {
                if (failed == null) {
                    System.out.println(".");
                }
            });
            Thread.sleep(PAUSE.toMillis());
        }
    }
}
