import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Java's producer and consumer as a program for the tests: produce lines key:value, or print records as such lines for ever. It knows no test.
 *
 *  The client's properties are the text of CLIENT_PROPERTIES.
 */
public class JavaClient {
    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.load(new StringReader(System.getenv("CLIENT_PROPERTIES")));
        properties.put("bootstrap.servers", args[1]);
        String tokens = properties.getProperty("sasl.oauthbearer.token.endpoint.url");
        if (tokens != null)
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", tokens);
        try {
            if (args[0].equals("produce"))
                produce(properties, args[2]);
            else
                follow(properties, args[2]);
        } catch (Throwable thrown) {
            fail(thrown);
        }
    }

    /** The producer is idempotent and waits for all in-sync replicas: both are its defaults. */
    static void produce(Properties properties, String topic) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] parts = line.split(":", 2);
                producer.send(new ProducerRecord<>(topic, parts[0], parts[1]), (sent, thrown) -> {
                    if (thrown != null)
                        fail(thrown);
                });
            }
        }
    }

    static void follow(Properties properties, String topic) {
        properties.put("group.id", "g-" + topic);
        properties.put("auto.offset.reset", "earliest");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (true)
                consumer.poll(Duration.ofMillis(500)).forEach(record -> System.out.println(record.key() + ":" + record.value()));
        }
    }

    static void fail(Throwable thrown) {
        thrown.printStackTrace();
        Runtime.getRuntime().halt(1);
    }
}
