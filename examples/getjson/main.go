// Command getjson retries an operation that returns a value. Watch two attempts
// fail: the server is unavailable, then sends half of a JSON document. The
// third attempt returns the document as a Go struct.
//
//	go run -C examples ./getjson
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

// settings are what the document contains.
type settings struct {
	Region   string
	Replicas int
}

var policy = backoff.Policy{
	Name:     "load settings",
	Schedule: backoff.Exponential{Initial: 50 * time.Millisecond},
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	const document = `{"Region": "north", "Replicas": 3}`
	server, err := faulty.Start(
		faulty.Status(http.StatusServiceUnavailable),
		faulty.Cut(document),
		faulty.Text(document),
	)
	if err != nil {
		return err
	}
	defer server.Close()

	log := journal.New(out)
	policy := policy
	policy.Observer = log.Observe
	// The value has the type that the function returns. There is nothing to
	// convert.
	loaded, err := backoff.DoValue(ctx, policy, func(ctx context.Context) (settings, error) {
		return load(ctx, server.URL)
	})
	if err != nil {
		return err
	}
	log.Say("got region %s, replicas %d", loaded.Region, loaded.Replicas)
	log.Sum()
	return nil
}

// load is one attempt.
func load(ctx context.Context, url string) (s settings, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return s, backoff.Permanent(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return s, backoff.WithClass(errors.New(resp.Status), backoffhttp.StatusClass(resp.StatusCode))
	}
	err = json.NewDecoder(resp.Body).Decode(&s)
	return s, err
}
