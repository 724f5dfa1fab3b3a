import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** As transformer.py, with Kafka's Java client: arguments are the bootstrap servers and the number of records. Compiles with Kafka 2.8 and 4.3. */
public class Transformer {
    static final String SOURCE = "source", TARGET = "target", GROUP = "transformers";
    static final double ABORTED = 0.2;

    final KafkaConsumer<byte[], byte[]> consumer;
    final KafkaProducer<byte[], byte[]> producer;
    final Random random = new Random();
    final long records;

    Transformer(String servers, long records) {
        this.records = records;
        Properties common = new Properties();
        common.put("bootstrap.servers", servers);
        Properties reading = new Properties();
        reading.putAll(common);
        reading.put("group.id", GROUP);
        reading.put("enable.auto.commit", "false");
        reading.put("auto.offset.reset", "earliest");
        reading.put("isolation.level", "read_committed");
        reading.put("session.timeout.ms", "6000");
        reading.put("max.poll.records", "200");
        consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(SOURCE));
        Properties writing = new Properties();
        writing.putAll(common);
        writing.put("transactional.id", "transformer");
        writing.put("transaction.timeout.ms", "20000");
        producer = new KafkaProducer<>(writing, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
    }

    void close() {
        producer.close(Duration.ZERO);
        consumer.close();
    }

    boolean transform() {
        while (true) {
            ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofSeconds(1));
            if (polled.isEmpty()) {
                if (committed() >= records) return true;
                continue;
            }
            Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
            Map<TopicPartition, Long> starts = new HashMap<>();
            producer.beginTransaction();
            for (ConsumerRecord<byte[], byte[]> each : polled) {
                TopicPartition partition = new TopicPartition(each.topic(), each.partition());
                producer.send(new ProducerRecord<>(TARGET, each.partition(), each.key(), each.value()));
                ends.put(partition, new OffsetAndMetadata(each.offset() + 1));
                starts.putIfAbsent(partition, each.offset());
            }
            producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
            if (random.nextDouble() >= ABORTED) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
                starts.forEach(consumer::seek);
            }
            System.out.println("transaction");
        }
    }

    long committed() {
        Set<TopicPartition> partitions = new HashSet<>();
        for (int partition = 0; partition < 3; partition++) partitions.add(new TopicPartition(SOURCE, partition));
        long sum = 0;
        for (OffsetAndMetadata each : consumer.committed(partitions).values()) if (each != null) sum += each.offset();
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        while (true) {
            Transformer transformer = null;
            try {
                transformer = new Transformer(arguments[0], Long.parseLong(arguments[1]));
                System.out.println("ready");
                if (transformer.transform()) return;
            } catch (KafkaException | IllegalStateException error) {
                System.err.println("begins anew after " + error);
            } finally {
                if (transformer != null) transformer.close();
            }
        }
    }
}
