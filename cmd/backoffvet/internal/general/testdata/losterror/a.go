package losterror

import (
	"errors"
	"fmt"
	"log"
	"time"
)

func drops(call func() error) error {
	for range 3 {
		if err := call(); err == nil {
			return nil
		}
	}
	return errors.New("gave up") // want "why call failed is lost"
}

func overwrites(call, connect func() error) error {
	var err error
	for range 3 {
		if err = call(); err == nil {
			return nil
		}
		if err = connect(); err != nil { // want "nil over the error of call"
			return err
		}
	}
	return fmt.Errorf("gave up: %w", err)
}

func wraps(call func() error) error {
	var err error
	for range 3 {
		if err = call(); err == nil {
			return nil
		}
		err = fmt.Errorf("call: %w", err)
	}
	return fmt.Errorf("gave up: %w", err)
}

func logs(call func() error) error {
	for range 3 {
		err := call()
		if err == nil {
			return nil
		}
		log.Print(err)
	}
	return errors.New("gave up")
}

func leaves(call func() error) error {
	for i := 0; i < 3; i++ {
		err := call()
		if err == nil {
			return nil
		}
		if i == 2 {
			return err
		}
	}
	return nil
}

func dropsOutside(addr string, call func(string) error) error {
	var err error
	for range 3 {
		if err = call(addr); err == nil {
			return nil
		}
	}
	return fmt.Errorf("no answer from %s", addr) // want "why call failed is lost"
}

func tellsTheStatus(call func() (string, error)) error {
	status := ""
	for range 3 {
		s, err := call()
		if err == nil {
			return nil
		}
		status = s
	}
	return errors.New("gave up: " + status)
}

func defers(call func() error) error {
	var err error
	defer func() { log.Print(err) }()
	for range 3 {
		if err = call(); err == nil {
			return nil
		}
	}
	return errors.New("gave up")
}

func keptElsewhere(call func() error) error {
	for range 3 {
		if lastSeen = call(); lastSeen == nil {
			return nil
		}
	}
	return errors.New("gave up")
}

var lastSeen error

func named(call func() error) (err error) {
	for range 3 {
		if err = call(); err == nil {
			return nil
		}
	}
	return err
}

func shrinks(list *[]string, send func([]string) error) error {
	for range 3 {
		if err := send(*list); err == nil {
			return nil
		}
		*list = (*list)[1:]
	}
	return errors.New("it does not fit")
}

func lastAttemptBehind(op func() error) error {
	for range 3 {
		if err := op(); err == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
	return op()
}
