package losterror

import (
	"errors"
	"fmt"
	"log"
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
