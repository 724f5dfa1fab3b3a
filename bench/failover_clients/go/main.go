// franz-go for bench/failover.py: prints a line for each acknowledged record, record read, or commit. Everything is at its default.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	pause = 10 * time.Millisecond
	limit = 5 * time.Second // of one commit
)

func main() {
	mode, seeds, topic, group := os.Args[1], kgo.SeedBrokers(strings.Split(os.Args[2], ",")...), os.Args[3], os.Args[4]
	switch mode {
	case "produce":
		produce(made(seeds, kgo.DefaultProduceTopic(topic)))
	case "consume":
		end := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtEnd()}}
		consume(made(seeds, kgo.ConsumePartitions(end)))
	case "commit":
		commit(made(seeds, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.DisableAutoCommit()), topic)
	}
}

func made(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	return client
}

func tell() { fmt.Fprintln(os.Stdout, ".") }

func produce(client *kgo.Client) {
	for {
		client.Produce(context.Background(), &kgo.Record{Value: []byte("x")}, func(_ *kgo.Record, err error) {
			if err == nil {
				tell()
			}
		})
		time.Sleep(pause)
	}
}

func consume(client *kgo.Client) {
	for {
		client.PollFetches(context.Background()).EachRecord(func(*kgo.Record) { tell() })
	}
}

func commit(client *kgo.Client, topic string) {
	go func() {
		for {
			client.PollFetches(context.Background())
		}
	}()
	for offset := int64(0); ; offset++ {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		failed := true
		client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: offset}}},
			func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
				failed = err != nil || answer.Topics[0].Partitions[0].ErrorCode != 0
			})
		cancel()
		if !failed {
			tell()
		}
		time.Sleep(pause)
	}
}
