import java.nio.charset.StandardCharsets;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.CreateMode;

/** Curator as a program for the tests: its recipes, and what a console on the JVM does, told as lines `name: what`. It knows no test. */
public class CuratorClient {
    static final int PATIENCE_S = 20;

    public static void main(String[] args) throws Exception {
        TreeMap<String, Object> found = new TreeMap<>();
        try (CuratorFramework client = connected(args[0]); CuratorFramework other = connected(args[0].split(",")[1])) {
            found.put("brokers", client.getChildren().forPath("/brokers/ids").stream().sorted().toList());
            client.create().creatingParentContainersIfNeeded().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath("/curator/seq/n-");
            found.put("containers", client.checkExists().forPath("/curator/seq").getEphemeralOwner());

            DistributedAtomicLong number = new DistributedAtomicLong(client, "/curator/number", new RetryOneTime(1));
            for (int i = 0; i < 10; i++) number.increment();
            other.sync().forPath("/curator/number");
            found.put("number", new DistributedAtomicLong(other, "/curator/number", new RetryOneTime(1)).get().postValue());

            InterProcessMutex mine = new InterProcessMutex(client, "/curator/lock"), yours = new InterProcessMutex(other, "/curator/lock");
            mine.acquire();
            found.put("lock held", yours.acquire(300, TimeUnit.MILLISECONDS));
            mine.release();
            found.put("lock released", yours.acquire(PATIENCE_S, TimeUnit.SECONDS));

            LeaderLatch first = new LeaderLatch(client, "/curator/latch"), second = new LeaderLatch(other, "/curator/latch");
            first.start();
            found.put("latch", first.await(PATIENCE_S, TimeUnit.SECONDS));
            second.start();
            first.close();
            found.put("latch of the other", second.await(PATIENCE_S, TimeUnit.SECONDS));

            CompletableFuture<String> seen = new CompletableFuture<>();
            try (CuratorCache cache = CuratorCache.build(other, "/brokers/topics")) {
                cache.listenable().addListener(CuratorCacheListener.builder().forCreates(node -> {
                    if (node.getPath().startsWith("/brokers/topics/from-curator/partitions/0/")) seen.complete(node.getPath());
                }).build());
                cache.start();
                byte[] topic = "{\"version\":1,\"partitions\":{\"0\":[3,1]}}".getBytes(StandardCharsets.UTF_8);
                client.transaction().forOperations(
                    client.transactionOp().create().forPath("/curator/note"),
                    client.transactionOp().create().forPath("/brokers/topics/from-curator", topic));
                found.put("topic", seen.get(PATIENCE_S, TimeUnit.SECONDS));
            }
            String config = new String(client.getZookeeperClient().getZooKeeper().getConfig(false, null));
            found.put("config", config.lines().filter(line -> line.startsWith("server.")).count());
        }
        found.forEach((name, what) -> System.out.println(name + ": " + what));
        System.exit(0);
    }

    static CuratorFramework connected(String servers) throws InterruptedException {
        CuratorFramework client = CuratorFrameworkFactory.newClient(servers, 10_000, 10_000, new RetryOneTime(100));
        client.start();
        client.blockUntilConnected(PATIENCE_S, TimeUnit.SECONDS);
        return client;
    }
}
