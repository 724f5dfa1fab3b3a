package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	source, target, group = "source", "target", "transformers"
	atOnce                = 200
	aborted               = 0.2
	silent                = 30 * time.Second // when nothing has happened for so long, a session begins anew
)

// As transformer.py, with a GroupTransactSession, which aborts a transaction by itself when its group rebalances.
func transform(seeds []string, records int64) {
	for {
		err := transformInSession(seeds, records)
		if err == nil {
			return
		}
		log.Print("begins anew after ", err)
		time.Sleep(200 * time.Millisecond) // of an application that does not hurry
	}
}

// Ends without an error when the offsets of all records are committed.
func transformInSession(seeds []string, records int64) error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(seeds...),
		kgo.MetadataMinAge(50*time.Millisecond),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID("transformer"),
		kgo.TransactionTimeout(20*time.Second),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	fmt.Println("ready")
	for heard := time.Now(); time.Since(heard) < silent; {
		rows, err := poll(session)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			if sum, err := committed(session.Client()); err != nil || sum >= records {
				return err
			}
			continue
		}
		if err := transact(session, rows); err != nil {
			return err
		}
		fmt.Println("transaction")
		heard = time.Now()
	}
	return errors.New("silence")
}

func poll(session *kgo.GroupTransactSession) ([]*kgo.Record, error) {
	within, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	fetches := session.PollRecords(within, atOnce)
	var failure error
	fetches.EachError(func(_ string, _ int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			failure = err
		}
	})
	return fetches.Records(), failure
}

// An aborted one reads its records again: the session sets its positions back.
func transact(session *kgo.GroupTransactSession, rows []*kgo.Record) error {
	within, cancel := context.WithTimeout(context.Background(), silent)
	defer cancel()
	if err := session.Begin(); err != nil {
		return err
	}
	produced := kgo.AbortingFirstErrPromise(session.Client())
	for _, row := range rows {
		session.Produce(within, &kgo.Record{Topic: target, Partition: row.Partition, Key: row.Key, Value: row.Value}, produced.Promise())
	}
	wanted := rand.Float64() >= aborted && produced.Err() == nil
	_, err := session.End(within, kgo.TransactionEndTry(wanted))
	return err
}

// The sum of the group's offsets.
func committed(client *kgo.Client) (int64, error) {
	within, cancel := context.WithTimeout(context.Background(), silent)
	defer cancel()
	offsets, err := kadm.NewClient(client).FetchOffsets(within, group)
	if err != nil {
		return 0, err
	}
	sum := int64(0)
	offsets.Each(func(each kadm.OffsetResponse) { sum += max(0, each.At) })
	return sum, offsets.Error()
}
