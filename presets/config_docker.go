package presets

import (
	"strconv"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
)

// DockerRestart is a restart policy of Docker, as text: the value of docker
// run's --restart and of restart in a Compose file.
//
//   - "no" and "": no restart.
//   - "on-failure" and "on-failure:0": restarts after a failure, without a
//     limit. "on-failure:5": at most 5 restarts, which are 6 runs.
//   - "always" and "unless-stopped": restarts after a success as well.
//
// Docker waits 100 ms before the first restart and twice as long before each
// further one, up to 1 min, without jitter. It starts again with 100 ms after a
// run of 10 s.
//
// Source: moby, daemon/internal/restartmanager, and Docker Engine API,
// RestartPolicy; measured with github.com/docker/docker v28.5.2.
type DockerRestart string

// Policy returns the policy of a container, for [backoff.Policy.Supervise],
// which restarts after a success as well, or Do, which does not. ResetAfter is
// 10 s.
//
// Supervise counts the attempts from 1 again after a run of ResetAfter. Docker never
// does, until somebody starts the container by hand. An unknown word, a number
// below 0, and a number after another word than on-failure are errors.
func (r DockerRestart) Policy() (backoff.Policy, error) {
	word, number, numbered := strings.Cut(string(r), ":")
	restarts := 0
	if numbered {
		n, err := strconv.ParseInt(number, 10, 31) // so that there is one attempt more
		if err != nil || n < 0 {
			return backoff.Policy{}, r.wrong("want a number from 0 (for no limit) to 1073741823")
		}
		restarts = int(n)
	}
	policy := backoff.Policy{
		MaxAttempts: -1,
		Schedule:    backoff.Exponential{Initial: 100 * time.Millisecond, Max: time.Minute},
		Jitter:      backoff.NoJitter,
		ResetAfter:  10 * time.Second,
	}
	switch {
	case word == "on-failure":
		if restarts > 0 {
			policy.MaxAttempts = restarts + 1
		}
	case restarts > 0:
		return backoff.Policy{}, r.wrong("want a number after on-failure only")
	case r == "" || word == "no":
		policy.MaxAttempts = 1
	case word != "always" && word != "unless-stopped":
		return backoff.Policy{}, r.wrong("want no, on-failure, always or unless-stopped")
	}
	return policy, nil
}

// wrong returns the error of a restart policy.
func (r DockerRestart) wrong(want string) error {
	return badfield.New("presets.DockerRestart", "is "+strconv.Quote(string(r))+", "+want)
}
