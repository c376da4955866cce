package redis

import "context"

type Options struct {
	Addr       string
	MaxRetries int
}

type StatusCmd struct{}

func (*StatusCmd) Err() error { return nil }

type Client struct{ cmdable }

type cmdable func(context.Context) error

func NewClient(*Options) *Client { return nil }

func (cmdable) Ping(context.Context) *StatusCmd { return nil }
