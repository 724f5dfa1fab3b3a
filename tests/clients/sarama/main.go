// sarama as a program for the tests: records with given times, searches by time, a trickle of records under retention. It knows no test.
package main

import (
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

func main() {
	command, seeds, topic := os.Args[1], strings.Split(os.Args[2], ","), os.Args[3]
	switch command {
	case "send":
		send(seeds, topic, int(number(os.Args[4])))
		return
	case "group":
		inGroup(seeds, topic, int(number(os.Args[4])))
		return
	case "copy":
		copyInTransactions(seeds, topic, int(number(os.Args[4])), os.Args[5])
		return
	}
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	client, err := sarama.NewClient(seeds, config)
	check(err)
	switch command {
	case "produce":
		produce(client, topic, number(os.Args[4]), number(os.Args[5]))
	case "search":
		for _, text := range os.Args[4:] {
			offset, err := client.GetOffset(topic, 0, number(text))
			check(err)
			fmt.Println(offset)
		}
	case "trickle":
		trickle(client, topic, time.Duration(number(os.Args[4]))*time.Millisecond, int(number(os.Args[5])))
	}
	check(client.Close())
}

// Each record is a batch of its own; they are 10 ms apart.
func produce(client sarama.Client, topic string, first, count int64) {
	producer, err := sarama.NewSyncProducerFromClient(client)
	check(err)
	for at := int64(0); at < count; at++ {
		message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("r"), Timestamp: time.UnixMilli(first + 10*at)}
		_, _, err := producer.SendMessage(message)
		check(err)
	}
}

// After each record all that are younger than the retention must still be there.
func trickle(client sarama.Client, topic string, retention time.Duration, count int) {
	producer, err := sarama.NewSyncProducerFromClient(client)
	check(err)
	var times []time.Time
	for range count {
		now := time.Now()
		_, offset, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("r"), Timestamp: now})
		check(err)
		if offset != int64(len(times)) {
			log.Fatalf("record %d is at %d", len(times), offset)
		}
		times = append(times, now)
		oldest, err := client.GetOffset(topic, 0, sarama.OffsetOldest)
		check(err)
		answered := time.Now()
		for at, sent := range times[:min(oldest, int64(len(times)))] {
			if answered.Sub(sent) < retention {
				log.Fatalf("record %d is gone after %v", at, answered.Sub(sent))
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	oldest, err := client.GetOffset(topic, 0, sarama.OffsetOldest)
	check(err)
	fmt.Println(oldest)
}

func number(text string) int64 {
	found, err := strconv.ParseInt(text, 10, 64)
	check(err)
	return found
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
