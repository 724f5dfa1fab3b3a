// go-zookeeper as a program for the tests: what a Go program of Kafka's surroundings does with ZooKeeper, told as one line of JSON. It knows no test.
package main

import (
	"encoding/json"
	"log"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

const patience = 20 * time.Second

var anyone = zk.WorldACL(zk.PermAll)

func main() {
	servers := strings.Split(os.Args[1], ",")
	client := connected(servers)
	other := connected(servers[1:])
	found := map[string]any{
		"auth": auth(client, other), "brokers": brokers(client), "topic": topic(client),
		"lock": lock(client, other), "multi": multi(client), "words": words(servers),
	}
	check(json.NewEncoder(os.Stdout).Encode(found))
}

func connected(servers []string) *zk.Conn {
	client, _, err := zk.Connect(servers, 10*time.Second, zk.WithLogInfo(false))
	check(err)
	return client
}

func brokers(client *zk.Conn) []string {
	ids, _, err := client.Children("/brokers/ids")
	check(err)
	sort.Strings(ids)
	return ids
}

// As Burrow and others do: watch the topics, and hear of a new one.
func topic(client *zk.Conn) []string {
	_, _, changed, err := client.ChildrenW("/brokers/topics")
	check(err)
	_, err = client.Create("/brokers/topics/from-go", []byte(`{"version":1,"partitions":{"0":[1,2]}}`), 0, anyone)
	check(err)
	event := within(changed)
	state, _, err := client.Get("/brokers/topics/from-go/partitions/0/state")
	check(err)
	var told struct{ Leader int }
	check(json.Unmarshal(state, &told))
	return []string{event.Type.String(), event.Path, map[bool]string{true: "led"}[told.Leader == 1]}
}

func lock(client, other *zk.Conn) []string {
	told := []string{}
	first, second := zk.NewLock(client, "/go/lock", anyone), zk.NewLock(other, "/go/lock", anyone)
	check(first.Lock())
	entered := make(chan error)
	go func() { entered <- second.Lock() }()
	select {
	case <-entered:
		told = append(told, "both")
	case <-time.After(300 * time.Millisecond):
		told = append(told, "one")
	}
	check(first.Unlock())
	select {
	case err := <-entered:
		check(err)
		told = append(told, "the other")
	case <-time.After(patience):
		told = append(told, "nobody")
	}
	check(second.Unlock())
	return told
}

func multi(client *zk.Conn) string {
	_, err := client.Multi(
		&zk.CreateRequest{Path: "/go/a", Data: []byte("1"), Acl: anyone},
		&zk.SetDataRequest{Path: "/go/a", Data: []byte("2"), Version: 0},
		&zk.CheckVersionRequest{Path: "/go/a", Version: 1},
	)
	check(err)
	data, _, err := client.Get("/go/a")
	check(err)
	return string(data)
}

func words(servers []string) []string {
	told := []string{}
	answers, whole := zk.FLWSrvr(servers, patience)
	for _, each := range answers {
		told = append(told, each.Mode.String())
	}
	sort.Strings(told)
	return append(told, map[bool]string{true: "whole", false: "broken"}[whole])
}

// A digest opens what an ACL closes. AddAuth waits for the answer to its own xid.
func auth(client, other *zk.Conn) []string {
	told := []string{}
	authenticated := make(chan error)
	go func() { authenticated <- client.AddAuth("digest", []byte("alice:secret")) }()
	select {
	case err := <-authenticated:
		check(err)
	case <-time.After(patience):
		return []string{"AddAuth hangs"}
	}
	_, err := client.Create("/go-secret", []byte("for alice"), 0, zk.DigestACL(zk.PermAll, "alice", "secret"))
	check(err)
	data, _, err := client.Get("/go-secret")
	check(err)
	_, err = other.Sync("/go-secret")
	check(err)
	_, _, err = other.Get("/go-secret")
	return append(told, string(data), err.Error())
}

func within(events <-chan zk.Event) zk.Event {
	select {
	case event := <-events:
		return event
	case <-time.After(patience):
		log.Fatal("nothing was heard")
		return zk.Event{}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
