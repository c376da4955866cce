package timeafter

import "time"

func idles(events <-chan string, f func(string)) {
	for {
		select {
		case e := <-events:
			f(e)
		case <-time.After(time.Hour): // want "leaves a timer behind"
			return
		}
	}
}

func leaves(stop <-chan bool) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Hour):
		}
	}
}

func inAFunction(events <-chan string, f func(func())) {
	for range events {
		f(func() {
			select {
			case <-events:
			case <-time.After(time.Hour):
			}
		})
	}
}

type server struct{ closeCh chan bool }

func closes(s *server, events <-chan string, running func() bool) {
	for running() {
		select {
		case <-s.closeCh:
		case <-time.After(time.Hour):
			return
		}
	}
}

func quits(quit <-chan error, events <-chan string, running func(error) bool) {
	var err error
	for running(err) {
		select {
		case err = <-quit:
		case <-time.After(time.Hour):
		}
	}
}

func brief(events <-chan string) {
	for {
		select {
		case <-events:
		case <-time.After(time.Second):
		}
	}
}

func returns(events <-chan string, ready func() bool) {
	for {
		if ready() {
			select {
			case <-events:
			case <-time.After(time.Hour):
			}
			return
		}
		time.Sleep(time.Second)
	}
}
