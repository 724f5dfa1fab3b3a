import io.confluent.kafka.schemaregistry.avro.AvroSchema;
import io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import io.confluent.kafka.schemaregistry.client.rest.RestService;
import io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import io.confluent.kafka.serializers.KafkaAvroDeserializer;
import io.confluent.kafka.serializers.KafkaAvroSerializer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.io.DecoderFactory;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Confluent's Avro serializers and registry client for Java as a program for the tests. It knows no test.
 *
 *  CLIENT_PROPERTIES has the properties of client and serializer. A command is a line of words with tabs between them:
 *      produce TOPIC SCHEMA VALUE     SCHEMA: registered by the serializer; or `latest` of the topic's subject. VALUE: in Avro's JSON
 *      read TOPIC COUNT               the values from the beginning, with a tab between two
 *      register SUBJECT TYPE SCHEMA [NAME REFERENCED-SUBJECT VERSION]
 *      subjects
 *      contexts
 *  Its answer is a line `ok TEXT` or `failed CAUSES`.
 */
public class RegistryClient {
    final Map<String, Object> settings = new HashMap<>();
    final RestService rest;
    final CachedSchemaRegistryClient registry;

    RegistryClient(Properties properties) {
        properties.forEach((name, value) -> settings.put((String) name, value));
        rest = new RestService((String) settings.get("schema.registry.url"));
        registry = new CachedSchemaRegistryClient(rest, 100, settings);
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.load(new StringReader(System.getenv("CLIENT_PROPERTIES")));
        RegistryClient client = new RegistryClient(properties);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine())
            System.out.println(client.answer(line.split("\t")).replace('\n', ' '));
    }

    String answer(String[] words) {
        try {
            return "ok " + switch (words[0]) {
                case "produce" -> produce(words[1], words[2], words[3]);
                case "read" -> read(words[1], Integer.parseInt(words[2]));
                case "register" -> register(words);
                case "subjects" -> String.join("\t", registry.getAllSubjects());
                case "contexts" -> String.join("\t", registry.getAllContexts());
                default -> throw new IllegalArgumentException(words[0]);
            };
        } catch (Exception thrown) {
            StringBuilder text = new StringBuilder("failed");
            for (Throwable each = thrown; each != null; each = each.getCause())
                text.append(' ').append(each);
            return text.toString();
        }
    }

    String produce(String topic, String text, String value) throws Exception {
        boolean latest = text.equals("latest");
        AvroSchema parsed = latest
                ? (AvroSchema) registry.getSchemaById(registry.getLatestSchemaMetadata(topic + "-value").getId())
                : new AvroSchema(text);
        Schema schema = parsed.rawSchema();
        Object record = new GenericDatumReader<>(schema).read(null, DecoderFactory.get().jsonDecoder(schema, value));
        Map<String, Object> own = new HashMap<>(settings);
        own.put("auto.register.schemas", !latest);
        own.put("use.latest.version", latest);
        KafkaAvroSerializer serializer = new KafkaAvroSerializer(registry, own);
        try (KafkaProducer<String, Object> producer = new KafkaProducer<>(own, new StringSerializer(), serializer)) {
            return Long.toString(producer.send(new ProducerRecord<>(topic, 0, null, record)).get().offset());
        }
    }

    String register(String[] words) throws Exception {
        List<SchemaReference> references = words.length > 4
                ? List.of(new SchemaReference(words[4], words[5], Integer.parseInt(words[6])))
                : List.of();
        return Integer.toString(rest.registerSchema(words[3], words[2], references, words[1]).getId());
    }

    String read(String topic, int count) {
        StringBuilder found = new StringBuilder();
        KafkaAvroDeserializer deserializer = new KafkaAvroDeserializer(registry, settings);
        try (KafkaConsumer<String, Object> consumer = new KafkaConsumer<>(settings, new StringDeserializer(), deserializer)) {
            List<TopicPartition> partitions = List.of(new TopicPartition(topic, 0));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (count > 0)
                for (ConsumerRecord<String, Object> record : consumer.poll(Duration.ofMillis(500))) {
                    found.append(found.length() == 0 ? "" : "\t").append(record.value());
                    count--;
                }
        }
        return found.toString();
    }
}
