package recipes

import (
	"context"
	"io"
	"net/http"

	"github.com/gobackoff/backoff/backoffhttp"
)

// must returns what an example cannot do without.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// textOf returns what a client finds at an URL.
func textOf(ctx context.Context, client *http.Client, url string) (string, error) {
	resp, err := client.Do(must(http.NewRequestWithContext(ctx, http.MethodGet, url, nil)))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if err := backoffhttp.Check(resp); err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}
