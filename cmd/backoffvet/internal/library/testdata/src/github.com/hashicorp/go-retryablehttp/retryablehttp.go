package retryablehttp

import "net/http"

type Client struct {
	RetryMax   int
	CheckRetry func() bool
}

func NewClient() *Client { return nil }

func (*Client) Get(string) (*http.Response, error) { return nil, nil }
