package nojitter

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"time"
)

func constant(ctx context.Context, call func(context.Context) error) {
	for call(ctx) != nil {
		time.Sleep(time.Second) // want "equally long"
	}
}

func doubles(ctx context.Context, call func(context.Context) error) {
	delay := time.Second
	for i := 0; call(ctx) != nil; i++ {
		time.Sleep(delay) // want "equally long"
		delay *= 2
	}
}

func powers(ctx context.Context, call func(context.Context) error) {
	for i := 0; i < 4; i++ {
		if call(ctx) == nil {
			return
		}
		time.Sleep(time.Duration(math.Pow(2, float64(i))) * time.Second) // want "equally long"
	}
}

func random(ctx context.Context, call func(context.Context) error) {
	for call(ctx) != nil {
		time.Sleep(rand.N(time.Second))
	}
}

func given(ctx context.Context, call func(context.Context) error, delay func() time.Duration) {
	for call(ctx) != nil {
		time.Sleep(delay())
	}
}

func local(path string) {
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(time.Second)
	}
}
