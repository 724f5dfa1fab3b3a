import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Java's share consumer as a program for the tests: brokers, topic, group; it knows no test.
 *
 *  It reads commands, and answers each with a line: "poll MS" with "ok" and the records, as partition:offset:deliveries:value; "ack PARTITION:OFFSET TYPE"
 *  and "commit" with "ok", or "error" and the names of exceptions. It ends when there are no commands left. The consumer's further properties are the
 *  text of CLIENT_PROPERTIES. A record that is renewed comes once more with the next poll, which "commit" does then.
 */
public class JavaShare {
    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.load(new StringReader(System.getenv("CLIENT_PROPERTIES")));
        properties.put("bootstrap.servers", args[0]);
        properties.put("group.id", args[2]);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, ConsumerRecord<String, String>> polled = new HashMap<>();
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(args[1]));
            for (String line = commands.readLine(); line != null; line = commands.readLine()) {
                String answer;
                try {
                    answer = "ok" + answer(consumer, polled, line.split(" "));
                } catch (Exception thrown) {
                    answer = "error " + thrown.getClass().getSimpleName();
                }
                System.out.println(answer);
                System.out.flush();
            }
        }
    }

    static boolean renews = false;

    static String answer(KafkaShareConsumer<String, String> consumer, Map<String, ConsumerRecord<String, String>> polled, String[] command) throws Exception {
        if (command[0].equals("poll")) {
            StringBuilder records = new StringBuilder();
            consumer.poll(Duration.ofMillis(Long.parseLong(command[1]))).forEach(record -> {
                String place = record.partition() + ":" + record.offset();
                polled.put(place, record);
                records.append(" ").append(place).append(":").append(record.deliveryCount().orElse((short) -1)).append(":").append(record.value());
            });
            return records.toString();
        }
        if (command[0].equals("ack")) {
            AcknowledgeType type = AcknowledgeType.valueOf(command[2]);
            consumer.acknowledge(polled.get(command[1]), type);
            renews |= type == AcknowledgeType.RENEW;
            return "";
        }
        for (var refused : consumer.commitSync().values())
            if (refused.isPresent())
                throw refused.get();
        if (renews)
            consumer.poll(Duration.ofSeconds(5));
        renews = false;
        return "";
    }
}
