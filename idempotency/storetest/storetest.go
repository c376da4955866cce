// Package storetest tests an implementation of idempotency.Store.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) idempotency.Store { return open(t) })
//	}
package storetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobackoff/backoff/idempotency"
)

// Run tests what idempotency.Store promises, each promise in a subtest. For
// each subtest it calls open for a store. The stores may share a database,
// because the keys differ. Run takes some tenths of a second.
func Run(t *testing.T, open func(t *testing.T) idempotency.Store) {
	for name, test := range map[string]func(*kit){
		"an unknown key is claimed":                (*kit).unknown,
		"a key in flight is claimed once":          (*kit).inFlight,
		"a done key has its record":                (*kit).done,
		"a key belongs to one request":             (*kit).mismatch,
		"a lease ends":                             (*kit).leaseEnds,
		"a claim that was taken over is lost":      (*kit).lost,
		"a late Finish counts if nobody took over": (*kit).late,
		"Finish may be repeated":                   (*kit).twice,
		"Release ends the lease":                   (*kit).release,
		"Release does not undo Finish":             (*kit).releaseDone,
		"of many one claims":                       (*kit).crowd,
		"of many one takes over":                   (*kit).crowdTakesOver,
		"keys are apart":                           (*kit).apart,
	} {
		t.Run(name, func(t *testing.T) { test(&kit{t, open(t), rand.Text()}) })
	}
}

const (
	long  = time.Hour
	short = 50 * time.Millisecond
)

// kit is what a subtest uses.
type kit struct {
	*testing.T
	store idempotency.Store
	salt  string
}

// hash returns a key or a fingerprint. No two subtests use the same.
func (k *kit) hash(name string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(k.salt+name)))
}

func (k *kit) begin(key string, lease time.Duration) idempotency.Entry {
	k.Helper()
	entry, err := k.store.Begin(context.Background(), key, k.hash("request"), lease)
	k.check(err)
	return entry
}

func (k *kit) claim(key string, lease time.Duration) idempotency.Claim {
	k.Helper()
	entry := k.begin(key, lease)
	k.want(entry.State, idempotency.EntryClaimed)
	k.want(entry.Claim.Key, key)
	return entry.Claim
}

func (k *kit) finish(c idempotency.Claim, r idempotency.Record) {
	k.Helper()
	k.check(k.store.Finish(context.Background(), c, r))
}

func (k *kit) check(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

func (k *kit) want(got, want any) {
	k.Helper()
	if !reflect.DeepEqual(got, want) {
		k.Fatalf("got %v, want %v", got, want)
	}
}

// expired waits until the lease of a claim has ended, and claims the key again.
func (k *kit) expired(key string) idempotency.Claim {
	k.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(short / 5) {
		if entry := k.begin(key, long); entry.State != idempotency.EntryInFlight {
			k.want(entry.State, idempotency.EntryClaimed)
			return entry.Claim
		}
	}
	k.Fatal("the lease does not end")
	return idempotency.Claim{}
}

func (k *kit) unknown() {
	c := k.claim(k.hash("key"), long)
	k.want(c.Run, 1)
	if c.Token == "" {
		k.Fatal("a claim without a token")
	}
}

func (k *kit) inFlight() {
	key := k.hash("key")
	k.claim(key, long)
	for range 3 {
		entry := k.begin(key, long)
		k.want(entry.State, idempotency.EntryInFlight)
		if entry.Left <= 0 || entry.Left > long {
			k.Fatalf("%v of the lease are left, of %v", entry.Left, long)
		}
	}
}

func record() idempotency.Record {
	body := make([]byte, 3000)
	for i := range body {
		body[i] = byte(i)
	}
	return idempotency.Record{
		Status: http.StatusCreated,
		Header: http.Header{"Location": {"/charges/1"}, "Set-Cookie": {"a=1", "b=\"ü\xfc\""}},
		Body:   body,
	}
}

func (k *kit) done() {
	for name, r := range map[string]idempotency.Record{
		"full":    record(),
		"empty":   {Status: http.StatusNoContent},
		"omitted": {Status: http.StatusCreated, Header: http.Header{"Location": {"/1"}}, Omitted: true},
	} {
		key := k.hash(name)
		k.finish(k.claim(key, long), r)
		for range 2 {
			entry := k.begin(key, long)
			k.want(entry.State, idempotency.EntryDone)
			k.same(entry.Record, r)
		}
	}
}

// same compares two records. nil and empty parts are equal.
func (k *kit) same(got, want idempotency.Record) {
	k.Helper()
	k.want(got.Status, want.Status)
	k.want(got.Omitted, want.Omitted)
	k.want(string(got.Body), string(want.Body))
	k.want(fmt.Sprintf("%q", got.Header), fmt.Sprintf("%q", want.Header)) // none is as good as nil
}

func (k *kit) mismatch() {
	key, ctx := k.hash("key"), context.Background()
	other := func() idempotency.EntryState {
		entry, err := k.store.Begin(ctx, key, k.hash("another request"), long)
		k.check(err)
		return entry.State
	}
	first := k.claim(key, long)
	k.want(other(), idempotency.EntryMismatch) // in flight
	k.check(k.store.Release(ctx, first))
	k.want(other(), idempotency.EntryMismatch) // released
	k.finish(k.claim(key, long), record())
	k.want(other(), idempotency.EntryMismatch) // done
}

func (k *kit) leaseEnds() {
	key := k.hash("key")
	first := k.claim(key, short)
	second := k.expired(key)
	k.want(second.Run, 2)
	if first.Token == second.Token {
		k.Fatal("two claims have one token")
	}
	k.want(k.begin(key, long).State, idempotency.EntryInFlight)
}

func (k *kit) lost() {
	key, ctx := k.hash("key"), context.Background()
	first := k.claim(key, short)
	second := k.expired(key)
	k.refuses(first)
	k.check(k.store.Release(ctx, first))
	k.want(k.begin(key, long).State, idempotency.EntryInFlight)
	k.finish(second, record())
	k.refuses(first)
	k.refuses(idempotency.Claim{Key: k.hash("unknown"), Token: first.Token, Run: 1})
}

// refuses fails the test if a claim can still be finished.
func (k *kit) refuses(c idempotency.Claim) {
	k.Helper()
	if err := k.store.Finish(context.Background(), c, record()); !errors.Is(err, idempotency.ErrLeaseLost) {
		k.Fatalf("got %v, want ErrLeaseLost", err)
	}
}

func (k *kit) late() {
	key := k.hash("key")
	c := k.claim(key, short)
	time.Sleep(2 * short)
	k.finish(c, record())
	k.want(k.begin(key, long).State, idempotency.EntryDone)
}

func (k *kit) twice() {
	key := k.hash("key")
	c := k.claim(key, long)
	k.finish(c, idempotency.Record{Omitted: true})
	k.finish(c, record())
	k.finish(c, record())
	k.same(k.begin(key, long).Record, record())
}

func (k *kit) release() {
	key, ctx := k.hash("key"), context.Background()
	for run := range 3 {
		c := k.claim(key, long)
		k.want(c.Run, run+1)
		k.check(k.store.Release(ctx, c))
		k.check(k.store.Release(ctx, c))
	}
	k.check(k.store.Release(ctx, idempotency.Claim{Key: k.hash("unknown"), Token: "x", Run: 1}))
}

func (k *kit) releaseDone() {
	key := k.hash("key")
	c := k.claim(key, long)
	k.finish(c, record())
	k.check(k.store.Release(context.Background(), c))
	k.want(k.begin(key, long).State, idempotency.EntryDone)
}

// claims returns how many of many concurrent calls claim a key.
func (k *kit) claims(key string) int {
	var all sync.WaitGroup
	var claimed atomic.Int64
	for range 16 {
		all.Go(func() {
			switch entry, err := k.store.Begin(context.Background(), key, k.hash("request"), long); {
			case err != nil:
				k.Error(err)
			case entry.State == idempotency.EntryClaimed:
				claimed.Add(1)
			case entry.State != idempotency.EntryInFlight:
				k.Errorf("got %v", entry.State)
			}
		})
	}
	all.Wait()
	return int(claimed.Load())
}

func (k *kit) crowd() {
	for i := range 5 {
		k.want(k.claims(k.hash("key"+strconv.Itoa(i))), 1)
	}
}

func (k *kit) crowdTakesOver() {
	key := k.hash("key")
	k.claim(key, short)
	time.Sleep(2 * short)
	k.want(k.claims(key), 1)
}

func (k *kit) apart() {
	one, two := k.claim(k.hash("one"), long), k.claim(k.hash("two"), long)
	k.finish(one, record())
	k.want(k.begin(two.Key, long).State, idempotency.EntryInFlight)
	k.check(k.store.Release(context.Background(), two))
	k.want(k.begin(one.Key, long).State, idempotency.EntryDone)
}
