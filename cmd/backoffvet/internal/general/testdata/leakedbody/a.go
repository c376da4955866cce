package leakedbody

import (
	"io"
	"net/http"
	"time"
)

func keeps(url string) (*http.Response, error) {
	for i := 0; ; i++ {
		resp, err := http.Get(url) // want "not closed"
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 500 || i == 3 {
			return resp, nil
		}
		time.Sleep(time.Second)
	}
}

func defers(url string) []byte {
	for {
		resp, err := http.Get(url) // want "not closed"
		if err != nil {
			continue
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			body, _ := io.ReadAll(resp.Body)
			return body
		}
		time.Sleep(time.Second)
	}
}

func closes(url string) (*http.Response, error) {
	for i := 0; ; i++ {
		resp, err := http.Get(url)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 500 || i == 3 {
			return resp, nil
		}
		resp.Body.Close()
		time.Sleep(time.Second)
	}
}

func hands(url string, drain func(*http.Response)) *http.Response {
	for {
		resp, err := http.Get(url)
		if err == nil && resp.StatusCode < 500 {
			return resp
		}
		if resp != nil {
			drain(resp)
		}
	}
}

func onErrors(url string) *http.Response {
	for {
		resp, err := http.Get(url)
		if err == nil {
			return resp
		}
		time.Sleep(time.Second)
	}
}

func asksWhetherThereIsOne(url string) *http.Response {
	for {
		resp, err := http.Get(url) // want "not closed"
		if err == nil && resp != nil && resp.StatusCode < 500 {
			return resp
		}
		time.Sleep(time.Second)
	}
}

func closesThatOfTheLastRound(url string) (resp *http.Response, err error) {
	for range 3 {
		if resp != nil {
			resp.Body.Close()
		}
		if resp, err = http.Get(url); err == nil && resp.StatusCode < 500 {
			return resp, nil
		}
	}
	return resp, err
}

func closesByAFlag(url string) (resp *http.Response, err error) {
	for i := range 3 {
		resp, err = http.Get(url)
		toClose := false
		if err == nil && resp.StatusCode >= 500 {
			toClose = true
		}
		if err == nil && !toClose {
			return resp, nil
		}
		if toClose && i < 2 {
			resp.Body.Close()
		}
	}
	return resp, err
}
