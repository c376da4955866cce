// Command transport is http through a Transport.
package main

import (
	"context"
	"net/http"
	"os"

	"github.com/gobackoff/backoff/backoffhttp"
)

var client = &http.Client{Transport: new(backoffhttp.Transport)}

func main() {
	if get(context.Background(), os.Args[1]) != nil {
		os.Exit(1)
	}
}

func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
