package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/url"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Names of PEM files, and a login, or the URL that gives tokens: what tests say to all clients that are programs.
type given struct {
	CA, Certificate, Key, Mechanism, Username, Password, Tokens string
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
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Oauth(func(context.Context) (oauth.Auth, error) { return token(told.Tokens) })))
	}
	return options
}

func token(from string) (oauth.Auth, error) {
	answer, err := http.PostForm(from, url.Values{"grant_type": {"client_credentials"}})
	if err != nil {
		return oauth.Auth{}, err
	}
	defer answer.Body.Close()
	var issued struct {
		Token string `json:"access_token"`
	}
	err = json.NewDecoder(answer.Body).Decode(&issued)
	return oauth.Auth{Token: issued.Token}, err
}
