// Command httpdo is http under a policy.
package main

import (
	"context"
	"net/http"
	"os"

	"github.com/gobackoff/backoff"
)

var policy = backoff.Policy{Name: "get"}

func main() {
	err := policy.Do(context.Background(), func(ctx context.Context) error {
		return get(ctx, os.Args[1])
	})
	if err != nil {
		os.Exit(1)
	}
}

func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
