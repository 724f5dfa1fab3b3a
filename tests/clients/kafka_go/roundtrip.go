package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/plain"
)

// The login that KAFKA_SECURITY_PROTOCOL and its like name.
func login() (*tls.Config, *plain.Mechanism) {
	if os.Getenv("KAFKA_SECURITY_PROTOCOL") != "SASL_SSL" {
		return nil, nil
	}
	authority, err := os.ReadFile(os.Getenv("KAFKA_SSL_CA_LOCATION"))
	check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return &tls.Config{RootCAs: pool}, &plain.Mechanism{Username: os.Getenv("KAFKA_SASL_USERNAME"), Password: os.Getenv("KAFKA_SASL_PASSWORD")}
}

// Values 0, 1, ... with seven keys.
func send(ctx context.Context, seeds []string, topic string, count int) {
	transport := &kafka.Transport{}
	if secure, mechanism := login(); secure != nil {
		transport.TLS, transport.SASL = secure, *mechanism
	}
	writer := &kafka.Writer{Addr: kafka.TCP(seeds...), Topic: topic, Balancer: &kafka.Hash{}, RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond, Transport: transport}
	for at := range count {
		check(writer.WriteMessages(ctx, kafka.Message{Key: []byte("key-" + strconv.Itoa(at%7)), Value: []byte(strconv.Itoa(at))}))
	}
	check(writer.Close())
}

// Prints each value that a member of a group reads, until there are as many as wanted, and commits them.
func inGroup(ctx context.Context, seeds []string, topic string, count int) {
	dialer := &kafka.Dialer{Timeout: 10 * time.Second, DualStack: true}
	if secure, mechanism := login(); secure != nil {
		dialer.TLS, dialer.SASLMechanism = secure, *mechanism
	}
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: seeds, GroupID: topic + "-classic", Topic: topic, StartOffset: kafka.FirstOffset, MaxWait: 200 * time.Millisecond, IsolationLevel: kafka.ReadCommitted, Dialer: dialer})
	for range count {
		message, err := reader.FetchMessage(ctx)
		check(err)
		check(reader.CommitMessages(ctx, message))
		fmt.Println(string(message.Value))
	}
	check(reader.Close())
}
