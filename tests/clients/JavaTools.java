import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.common.utils.internals.Exit;

/** Runs the main methods of Kafka's tools one after the other in one JVM, whose start costs more than they do. It knows no tool.
 *
 *  A line of input is one run: what the tool shall find on its standard input, its class, its arguments, each in base64, with spaces between.
 *  A line of output is its end: the exit code, a space, and what it printed, in base64.
 */
public class JavaTools {
    static volatile CompletableFuture<Integer> exit;
    static final List<Runnable> hooks = new CopyOnWriteArrayList<>();

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        Exit.setExitProcedure((code, message) -> leave(code));
        Exit.setHaltProcedure((code, message) -> leave(code));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = Arrays.stream(line.split(" ", -1)).map(JavaTools::decoded).toArray(String[]::new);
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream stream = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setIn(new ByteArrayInputStream(words[0].getBytes(StandardCharsets.UTF_8)));
            System.setOut(stream);
            System.setErr(stream);
            int code = run(words[1], Arrays.copyOfRange(words, 2, words.length));
            out.println(code + " " + Base64.getEncoder().encodeToString(printed.toByteArray()));
        }
        Runtime.getRuntime().halt(0); // clients that a tool left to the end of its process are still there
    }

    static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    static int run(String tool, String[] arguments) throws Exception {
        CompletableFuture<Integer> done = exit = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
                done.complete(0);
            } catch (Exception thrown) {
                thrown.printStackTrace();
                done.complete(1);
            }
        });
        thread.setDaemon(true);
        thread.start();
        int code = done.get();
        hooks.forEach(Runnable::run); // as at the end of a process
        hooks.clear();
        return code;
    }

    /** A thread that exits does nothing more: what would throw is caught by the tools. */
    static void leave(int code) {
        exit.complete(code);
        while (true)
            java.util.concurrent.locks.LockSupport.park();
    }
}
