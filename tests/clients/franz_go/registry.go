package main

import (
	"fmt"

	"github.com/hamba/avro/v2"
	"github.com/twmb/franz-go/pkg/sr"
)

type truck struct {
	Number int    `avro:"number"`
	At     string `avro:"at"`
}

// A record of Go's, encoded with the schema that the registry has given a number, then decoded by that number alone.
func registry(url, subject, text string) {
	client, err := sr.NewClient(sr.URLs(url))
	check(err)
	made, err := client.CreateSchema(ctx, subject, sr.Schema{Schema: text, Type: sr.TypeAvro})
	check(err)
	schema := avro.MustParse(text)
	payload, err := avro.Marshal(schema, truck{7, "x"})
	check(err)
	header, err := new(sr.ConfluentHeader).AppendEncode(nil, made.ID, nil)
	check(err)
	record := append(header, payload...)

	number, rest, err := new(sr.ConfluentHeader).DecodeID(record)
	check(err)
	written, err := client.SchemaByID(ctx, number)
	check(err)
	var found truck
	check(avro.Unmarshal(avro.MustParse(written.Schema), rest, &found))
	compatible, err := client.CheckCompatibility(ctx, subject, -1, sr.Schema{Schema: `"string"`})
	check(err)
	deleted, err := client.DeleteSubject(ctx, subject, sr.SoftDelete)
	check(err)
	fmt.Println(found.Number, found.At, number, made.Version, compatible.Is, deleted)
}
