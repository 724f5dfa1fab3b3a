package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Names of PEM files, and a login: what tests say to all clients that are programs.
type given struct {
	CA, Certificate, Key, Mechanism, Username, Password string
}

func security() []kgo.Opt {
	text, found := os.LookupEnv("CLIENT_SECURITY")
	if !found {
		return nil
	}
	var told given
	check(json.Unmarshal([]byte(text), &told))
	authority, err := os.ReadFile(told.CA)
	check(err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(authority)
	if told.Key != "" {
		pair, err := tls.LoadX509KeyPair(told.Certificate, told.Key)
		check(err)
		config.Certificates = []tls.Certificate{pair}
	}
	options := []kgo.Opt{kgo.DialTLSConfig(config)}
	switch told.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: told.Username, Pass: told.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: told.Username, Pass: told.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: told.Username, Pass: told.Password}.AsSha512Mechanism()))
	}
	return options
}
