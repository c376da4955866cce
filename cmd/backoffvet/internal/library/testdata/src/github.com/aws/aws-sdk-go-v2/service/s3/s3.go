package s3

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
)

type (
	Client          struct{}
	Options         struct{}
	GetObjectInput  struct{}
	GetObjectOutput struct{}
)

func NewFromConfig(aws.Config, ...func(*Options)) *Client { return nil }

func (*Client) GetObject(context.Context, *GetObjectInput, ...func(*Options)) (*GetObjectOutput, error) {
	return nil, nil
}
