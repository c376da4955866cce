package lastsleep

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

func sleeps(call func() error) error {
	var err error
	for i := 0; i < 3; i++ {
		if err = call(); err == nil {
			return nil
		}
		time.Sleep(time.Second) // want "after its last attempt"
	}
	return err
}

func ofATable(call func() error, delays []time.Duration) (err error) {
	for _, d := range delays {
		if err = call(); err != nil {
			time.Sleep(d) // want "after its last attempt"
			continue
		}
		break
	}
	return err
}

func asTold(ctx context.Context, req *http.Request) (*http.Response, error) {
	for {
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests {
			return resp, err
		}
		resp.Body.Close()
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(seconds) * time.Second): // want "as long as a server says"
		}
	}
}

func onceMore(call func() error) error {
	for range 3 {
		if call() == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
	return call()
}

func leaves(call func() error, most int) error {
	var err error
	for i := 0; i < most; i++ {
		if err = call(); err == nil {
			break
		}
		last := i == most-1
		if last {
			break
		}
		time.Sleep(time.Second)
	}
	return err
}

func before(call func() error) error {
	var err error
	for i := range 3 {
		if i > 0 {
			time.Sleep(time.Second)
		}
		if err = call(); err == nil {
			return nil
		}
	}
	return err
}

func isShort(call func() error) error {
	var err error
	for range 3 {
		if err = call(); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}
