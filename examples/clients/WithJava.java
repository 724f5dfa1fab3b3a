import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Produce and consume with Java's client: java -cp 'kafka-clients.jar:slf4j-api.jar' WithJava.java [BOOTSTRAP_SERVERS] */
public class WithJava {
    static final String TOPIC = "hello-java";

    public static void main(String[] args) {
        String servers = args.length > 0 ? args[0] : "localhost:9092";
        Map<String, Object> ofProducer = Map.of("bootstrap.servers", servers);
        try (var producer = new KafkaProducer<>(ofProducer, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < 3; number++)
                producer.send(new ProducerRecord<>(TOPIC, "key", "value-" + number));
        }
        Map<String, Object> ofConsumer = Map.of("bootstrap.servers", servers, "group.id", "hello", "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(ofConsumer, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(TOPIC));
            for (int read = 0; read < 3; )
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    System.out.println(record.key() + " " + record.value());
                    read++;
                }
        }
    }
}
