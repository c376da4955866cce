package storage

import "context"

type (
	Client       struct{}
	ObjectHandle struct{}
	RetryOption  int
	RetryPolicy  int
)

const RetryNever RetryPolicy = 2

func NewClient(context.Context) (*Client, error)   { return nil, nil }
func WithPolicy(RetryPolicy) RetryOption           { return 0 }
func (*Client) SetRetry(...RetryOption)            {}
func (*Client) Object(string) *ObjectHandle        { return nil }
func (*ObjectHandle) Delete(context.Context) error { return nil }
