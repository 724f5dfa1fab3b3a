// kafka-go as a program for the tests: produce and consume records of one partition as lines offset:key:value. It knows no test.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

func main() {
	command, seeds, topic := os.Args[1], strings.Split(os.Args[2], ","), os.Args[3]
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch command {
	case "send":
		count, err := strconv.Atoi(os.Args[4])
		check(err)
		send(ctx, seeds, topic, count)
	case "group":
		count, err := strconv.Atoi(os.Args[4])
		check(err)
		inGroup(ctx, seeds, topic, count)
	case "produce":
		produce(ctx, seeds, topic)
	case "consume":
		count, err := strconv.Atoi(os.Args[4])
		check(err)
		consume(ctx, seeds, topic, count)
	}
}

// Lines key:value; without a value the key is deleted.
func produce(ctx context.Context, seeds []string, topic string) {
	writer := &kafka.Writer{Addr: kafka.TCP(seeds...), Topic: topic, RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		key, value, found := strings.Cut(lines.Text(), ":")
		message := kafka.Message{Key: []byte(key)}
		if found {
			message.Value = []byte(value)
		}
		check(writer.WriteMessages(ctx, message))
	}
	check(writer.Close())
}

func consume(ctx context.Context, seeds []string, topic string, count int) {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: seeds, Topic: topic, Partition: 0, MaxWait: 200 * time.Millisecond})
	check(reader.SetOffset(kafka.FirstOffset))
	for range count {
		message, err := reader.ReadMessage(ctx)
		check(err)
		fmt.Printf("%d:%s:%s\n", message.Offset, message.Key, message.Value)
	}
	check(reader.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
