import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.StreamJoined;

/** A Kafka Streams application, exactly once: arguments are its name, the bootstrap servers, its state directory and the group protocol (classic or streams). It runs until it is killed.
 *
 *  count: words of the topic `lines` are counted; each of them gives a record (word, count) in `counts`.
 *  join: `left` and `right` are joined by key where their times are at most WINDOW_S apart; each pair gives a record (key, "left right") in `joined`.
 */
public class Streams {
    static final long WINDOW_S = 10;
    static final Duration GRACE = Duration.ofDays(365); // no record comes too late

    static void count(StreamsBuilder builder) {
        slow(builder.stream("lines"))
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count()
            .toStream()
            .mapValues(count -> count.toString())
            .to("counts");
    }

    static void join(StreamsBuilder builder) {
        JoinWindows window = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(WINDOW_S), GRACE);
        slow(builder.stream("left"))
            .join(slow(builder.stream("right")), (left, right) -> left + " " + right, window, StreamJoined.as("pairs"))
            .to("joined");
    }

    /** So that it is in the middle of its work when it is killed. */
    static KStream<String, String> slow(KStream<String, String> stream) {
        return stream.peek((key, value) -> {
            try {
                Thread.sleep(3);
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        });
    }

    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("application.id", arguments[0]);
        settings.put("bootstrap.servers", arguments[1]);
        settings.put("state.dir", arguments[2]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("replication.factor", "3");
        settings.put("num.stream.threads", "2");
        settings.put("statestore.cache.max.bytes", "0"); // each word gives a record
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        settings.put("consumer.auto.offset.reset", "earliest");
        if (arguments.length > 3 && arguments[3].equals("streams")) {
            settings.put("group.protocol", "streams"); // the broker says when a session ends
        } else {
            settings.put("consumer.session.timeout.ms", "6000");
            settings.put("consumer.heartbeat.interval.ms", "500");
        }
        StreamsBuilder builder = new StreamsBuilder();
        if (arguments[0].equals("count")) count(builder);
        else join(builder);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_APPLICATION; // nothing that a broker does may end a thread
        });
        streams.setStateListener((now, before) -> {
            System.out.println(now);
            if (now == KafkaStreams.State.ERROR) Runtime.getRuntime().halt(1);
        });
        streams.start();
    }
}
