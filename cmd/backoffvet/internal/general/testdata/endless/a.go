package endless

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"
)

func gets(url string) *http.Response {
	for {
		resp, err := http.Get(url) // want "only when Get succeeds"
		if err == nil {
			return resp
		}
		time.Sleep(time.Second)
	}
}

func inTheHeader(call func(context.Context) error) {
	for call(context.Background()) != nil { // want "only when call succeeds"
		time.Sleep(time.Second)
	}
}

func hears(ctx context.Context, call func(context.Context) error) error {
	for {
		if call(ctx) == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func asks(ctx context.Context, call func(context.Context) error) {
	for ctx.Err() == nil {
		if call(ctx) == nil {
			return
		}
		time.Sleep(time.Second)
	}
}

func appears(path string) {
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(time.Second)
	}
}

func exits(url string) *http.Response {
	for i := 0; ; i++ {
		resp, err := http.Get(url)
		if err == nil {
			return resp
		}
		if i == 3 {
			panic(errors.New("no answer"))
		}
	}
}
