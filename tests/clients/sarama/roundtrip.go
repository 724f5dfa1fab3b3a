package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

const patience = 40 * time.Second

// The login that KAFKA_SECURITY_PROTOCOL and its like name; of a config for the verbs of this file.
func login(config *sarama.Config) {
	if os.Getenv("KAFKA_SECURITY_PROTOCOL") != "SASL_SSL" {
		return
	}
	authority, err := os.ReadFile(os.Getenv("KAFKA_SSL_CA_LOCATION"))
	check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	config.Net.TLS.Enable = true
	config.Net.TLS.Config = &tls.Config{RootCAs: pool}
	config.Net.SASL.Enable = true
	config.Net.SASL.Mechanism = sarama.SASLTypePlaintext
	config.Net.SASL.User = os.Getenv("KAFKA_SASL_USERNAME")
	config.Net.SASL.Password = os.Getenv("KAFKA_SASL_PASSWORD")
}

func roundtripConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.MaxWaitTime = 50 * time.Millisecond // a commit is sent behind the answer to a fetch
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	login(config)
	return config
}

func producerConfig() *sarama.Config {
	config := roundtripConfig()
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	return config
}

// Values 0, 1, ... with seven keys.
func send(seeds []string, topic string, count int) {
	producer, err := sarama.NewSyncProducer(seeds, producerConfig())
	check(err)
	for at := range count {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder("key-" + strconv.Itoa(at%7)), Value: sarama.StringEncoder(strconv.Itoa(at))})
		check(err)
	}
	check(producer.Close())
}

type member struct {
	read func(sarama.ConsumerGroupSession, *sarama.ConsumerMessage)
}

func (member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (member) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (m member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message := <-claim.Messages():
			if message != nil {
				m.read(session, message)
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

// Calls `read` with each record that a member of the group gets, until there are `count`.
func asMember(seeds []string, topic, name string, count int, read func(sarama.ConsumerGroupSession, *sarama.ConsumerMessage)) {
	group, err := sarama.NewConsumerGroup(seeds, name, roundtripConfig())
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	messages := make(chan struct{}, count)
	turn := make(chan struct{}, 1)
	go func() {
		for range count {
			select {
			case <-messages:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	for ctx.Err() == nil {
		check(group.Consume(ctx, []string{topic}, member{func(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) {
			turn <- struct{}{}
			read(session, message)
			<-turn
			messages <- struct{}{}
		}}))
	}
	check(group.Close())
}

func inGroup(seeds []string, topic string, count int) {
	asMember(seeds, topic, topic+"-classic", count, func(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) {
		fmt.Println(string(message.Value))
		session.MarkMessage(message, "")
		session.Commit()
	})
}

// Copies each record in a transaction; the first one is aborted, and made again.
func copyInTransactions(seeds []string, topic string, count int, target string) {
	config := producerConfig()
	config.Producer.Transaction.ID = topic + "-copy"
	producer, err := sarama.NewSyncProducer(seeds, config)
	check(err)
	check(producer.BeginTxn())
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: target, Value: sarama.StringEncoder("aborted")})
	check(err)
	check(producer.AbortTxn())
	asMember(seeds, topic, topic+"-copy", count, func(_ sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) {
		check(producer.BeginTxn())
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: target, Value: sarama.ByteEncoder(message.Value)})
		check(err)
		check(producer.AddMessageToTxn(message, topic+"-copy", nil))
		check(producer.CommitTxn())
	})
	check(producer.Close())
}
