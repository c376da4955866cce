package testdata

import (
	"context"
	"errors"
	"net/http"
	"time"
)

func retryCounts(call func() error) error {
	var err error
	for i := 0; i < 3; i++ {
		if err = call(); err == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
	return err
}

func retryInTheHeader(call func() error) {
	for call() != nil {
		time.Sleep(time.Second)
	}
}

func retryWhileItFails(call func() error) {
	err := call()
	for err != nil {
		time.Sleep(time.Second)
		err = call()
	}
}

func retrySwitches(call func() error) error {
	for {
		err := call()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, context.Canceled):
			return err
		}
		time.Sleep(time.Second)
	}
}

func retryTwoSteps(first, second func() error) {
	for {
		if err := first(); err != nil {
			continue
		}
		if err := second(); err != nil {
			continue
		}
		return
	}
}

func retryByStatus(url string) (*http.Response, error) {
	for {
		resp, err := http.Get(url)
		if err != nil || resp.StatusCode < 500 {
			return resp, err
		}
		resp.Body.Close()
	}
}

func retryWhatAnotherSays(call func() error, transient func(error) bool) error {
	for {
		err := call()
		if !transient(err) {
			return err
		}
		time.Sleep(time.Second)
	}
}

func pollTolerant(get func() (bool, error)) {
	for {
		done, err := get()
		if err == nil && done {
			return
		}
		time.Sleep(time.Second)
	}
}

func workerReceives(receive func() (string, error), handle func(string)) {
	for {
		v, err := receive()
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		handle(v)
	}
}

func otherPolls(get func() (bool, error)) error {
	for {
		done, err := get()
		if err != nil {
			return err
		}
		if done {
			return nil
		}
		time.Sleep(time.Second)
	}
}

func otherPages(next func(string) (string, error)) error {
	token := ""
	for {
		var err error
		if token, err = next(token); err != nil {
			return err
		}
		if token == "" {
			return nil
		}
	}
}

func otherServers(servers []string, dial func(string) error) error {
	var err error
	for _, s := range servers {
		if err = dial(s); err == nil {
			return nil
		}
	}
	return err
}

func otherPorts(listen func(int) error) error {
	var err error
	for port := 8000; port < 9000; port++ {
		if err = listen(port); err == nil {
			return nil
		}
	}
	return err
}

func otherNeverStops(call func() error) {
	for {
		_ = call()
		time.Sleep(time.Second)
	}
}
