package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 30 * time.Second

var statuses = map[string]kgo.AckStatus{"ACCEPT": kgo.AckAccept, "RELEASE": kgo.AckRelease, "REJECT": kgo.AckReject, "RENEW": kgo.AckRenew}

// Errors of acknowledgements, which the client tells in a goroutine of its own.
type refusals struct {
	mutex sync.Mutex
	last  error
}

func (r *refusals) told(_ *kgo.Client, results kgo.ShareAckResults) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if err := results.Error(); err != nil {
		r.last = err
	}
}

func (r *refusals) take() (last error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	last, r.last = r.last, nil
	return
}

// A member of a share group, which reads commands and answers each with a line, as python_share.py does. One fetch a poll: it holds no more than it has told.
func share(seeds []string, topic, group string) {
	refused, polled := &refusals{}, map[string]*kgo.Record{}
	consumer := client(seeds, kgo.ShareGroup(group), kgo.ConsumeTopics(topic), kgo.ShareMaxRecordsStrict(), kgo.ShareAckCallback(refused.told))
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		said, err := "", error(nil)
		switch words[0] {
		case "poll":
			said, err = pollShared(consumer, polled, words[1])
		case "ack":
			polled[words[1]].Ack(statuses[words[2]])
		case "commit":
			flush, cancel := context.WithTimeout(context.Background(), patience)
			err = errors.Join(consumer.FlushAcks(flush), refused.take())
			cancel()
		}
		if err != nil {
			fmt.Printf("error %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Printf("ok%s\n", said)
		}
	}
	consumer.Close()
}

// Returns the records. A poll that ends in time is none that fails, nor is one that loses its connection: the client opens another.
func pollShared(consumer *kgo.Client, polled map[string]*kgo.Record, milliseconds string) (said string, failed error) {
	wait, err := strconv.Atoi(milliseconds)
	check(err)
	until, cancel := context.WithTimeout(context.Background(), time.Duration(wait)*time.Millisecond)
	defer cancel()
	fetches := consumer.PollFetches(until)
	fetches.EachError(func(_ string, _ int32, err error) {
		var eof *kgo.ErrFirstReadEOF
		if !errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &eof) {
			failed = err
		}
	})
	fetches.EachRecord(func(record *kgo.Record) {
		place := fmt.Sprintf("%d:%d", record.Partition, record.Offset)
		polled[place] = record
		said += fmt.Sprintf(" %s:%d:%s", place, record.DeliveryCount(), record.Value)
	})
	return
}
