// franz-go as a program for the tests: produce, consume and follow records as lines key:value, some of kadm, and transactions. It knows no test.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const underWay = 1000

var ctx, _ = context.WithTimeout(context.Background(), 2*time.Minute)

func main() {
	command, seeds, topic := os.Args[1], strings.Split(os.Args[2], ","), os.Args[3]
	switch command {
	case "produce":
		produce(client(seeds, kgo.DefaultProduceTopic(topic), kgo.MaxBufferedRecords(underWay), kgo.ProducerLinger(2*time.Millisecond)))
	case "consume":
		consume(seeds, topic)
	case "follow":
		start := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
		follow(client(seeds, kgo.ConsumerGroup("g-"+topic), kgo.ConsumeTopics(topic), start))
	case "administer":
		administer(client(seeds), topic)
	case "share":
		share(seeds, topic, os.Args[4])
	case "registry":
		registry(os.Args[2], os.Args[3], os.Args[4])
	case "transform":
		records, err := strconv.ParseInt(os.Args[3], 10, 64)
		check(err)
		transform(seeds, records)
	}
}

func client(seeds []string, options ...kgo.Opt) *kgo.Client {
	options = append(options, security()...)
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(50*time.Millisecond))...)
	check(err)
	return made
}

// The producer is idempotent and waits for all in-sync replicas: both are its defaults.
func produce(producer *kgo.Client) {
	check(producer.Ping(ctx))
	var acknowledged sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		key, value, _ := bytes.Cut(bytes.Clone(lines.Bytes()), []byte(":"))
		acknowledged.Add(1)
		producer.Produce(ctx, &kgo.Record{Key: key, Value: value}, func(_ *kgo.Record, err error) {
			check(err)
			acknowledged.Done()
		})
	}
	acknowledged.Wait()
	producer.Close()
}

func consume(seeds []string, topic string) {
	ends, err := kadm.NewClient(client(seeds)).ListEndOffsets(ctx, topic)
	check(err)
	from, left := map[int32]kgo.Offset{}, int64(0)
	ends.Each(func(end kadm.ListedOffset) {
		check(end.Err)
		from[end.Partition] = kgo.NewOffset().AtStart()
		left += end.Offset
	})
	consumer := client(seeds, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for left > 0 {
		fetches := consumer.PollFetches(ctx)
		fetches.EachError(func(_ string, _ int32, err error) { check(err) })
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Fprintf(out, "%s:%s\n", record.Key, record.Value)
			left--
		})
	}
}

// Prints records for ever, as they come.
func follow(consumer *kgo.Client) {
	check(consumer.Ping(ctx))
	for {
		fetches := consumer.PollFetches(ctx)
		fetches.EachError(func(_ string, _ int32, err error) {
			if !joinsAgain(err) {
				check(err)
			}
		})
		fetches.EachRecord(func(record *kgo.Record) { fmt.Printf("%s:%s\n", record.Key, record.Value) })
	}
}

// The client tells that it has lost its group, as when a broker stops, and joins again by itself. Not so if a broker has refused it.
func joinsAgain(err error) bool {
	var lost *kgo.ErrGroupSession
	var refused *kerr.Error
	return errors.As(err, &lost) && !errors.As(err, &refused)
}

// Prints what came of it as JSON.
func administer(producer *kgo.Client, topic string) {
	admin, found := kadm.NewClient(producer), map[string]any{}
	retention := "7777"
	_, err := admin.CreateTopic(ctx, 1, 2, map[string]*string{"retention.ms": &retention}, topic)
	check(err)
	added, err := admin.CreatePartitions(ctx, 2, topic)
	check(err)
	check(added.Error())
	altered, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")}}, topic)
	check(err)
	check(altered[0].Err)
	found["configs"] = until(func() map[string]string { return configs(admin, topic) }, func(own map[string]string) bool { return len(own) == 2 })

	var move kadm.AlterPartitionAssignmentsReq
	move.Assign(topic, 0, []int32{1, 2, 3})
	moved, err := admin.AlterPartitionAssignments(ctx, move)
	check(err)
	check(moved.Error())
	first := func() kadm.PartitionDetail { return partitions(admin, topic)[0] }
	found["replicas"] = until(first, func(p kadm.PartitionDetail) bool { return len(p.ISR) == 3 }).Replicas

	for i := range 10 {
		record := &kgo.Record{Topic: topic, Key: []byte("same"), Value: fmt.Append(nil, i)}
		check(producer.ProduceSync(ctx, record).FirstErr())
		found["partition"] = record.Partition
	}
	partition := found["partition"].(int32)
	deleted, err := admin.DeleteRecords(ctx, kadm.Offsets{topic: {partition: {Topic: topic, Partition: partition, At: 4}}})
	check(err)
	check(deleted.Error())
	starts, err := admin.ListStartOffsets(ctx, topic)
	check(err)
	start, _ := starts.Lookup(topic, partition)
	found["start"] = start.Offset
	writers, err := admin.DescribeProducers(ctx, kadm.TopicsSet{topic: {partition: {}}})
	check(err)
	for _, producer := range writers[topic].Partitions[partition].ActiveProducers {
		found["last sequence"] = producer.LastSequence
	}

	_, err = admin.DeleteTopic(ctx, topic)
	check(err)
	until(func() kadm.PartitionDetails { return partitions(admin, topic) }, func(all kadm.PartitionDetails) bool { return len(all) == 0 })
	check(json.NewEncoder(os.Stdout).Encode(found))
}

// What is changed through one broker is seen through another a moment later.
func until[T any](ask func() T, holds func(T) bool) T {
	for {
		if found := ask(); holds(found) {
			return found
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Those that were set on the topic.
func configs(admin *kadm.Client, topic string) map[string]string {
	described, err := admin.DescribeTopicConfigs(ctx, topic)
	check(err)
	own := map[string]string{}
	for _, config := range described[0].Configs {
		if config.Source.String() == "DYNAMIC_TOPIC_CONFIG" {
			own[config.Key] = config.MaybeValue()
		}
	}
	return own
}

func partitions(admin *kadm.Client, topic string) kadm.PartitionDetails {
	listed, err := admin.ListTopics(ctx, topic)
	check(err)
	return listed[topic].Partitions
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
