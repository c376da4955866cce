package presets

import (
	"cmp"
	"strconv"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/pace"
)

// AWSRetry is the retry setting of the AWS SDKs, as text: of the environment, or
// of a profile in the shared config file.
//
//	policy, err := presets.AWSRetry{
//		MaxAttempts: os.Getenv("AWS_MAX_ATTEMPTS"),
//		Mode:        os.Getenv("AWS_RETRY_MODE"),
//	}.Policy()
//
// The values mean what they mean to the SDK for Go. The guide of all SDKs wants
// a number greater than 0; the SDK for Go takes others as the fields say.
//
// Source: AWS SDKs and Tools Reference Guide, "Retry behavior"; aws-sdk-go-v2,
// config (env_config.go, shared_config.go) and aws/retry; measured with
// v1.47.6.
type AWSRetry struct {
	// MaxAttempts is AWS_MAX_ATTEMPTS or max_attempts, a whole number: the
	// attempts of a call, the first included. Empty and 0 mean 3, and a
	// negative number means no limit.
	MaxAttempts string
	// Mode is AWS_RETRY_MODE or retry_mode: "standard" or "adaptive". Empty
	// means standard. "legacy" is an error, as in the SDK for Go: it differs
	// between the SDKs.
	Mode string
}

// Policy returns the policy of a client with this setting: [AWSGoV2Legacy] with
// its own number of attempts and, as Budget, a new [NewAWSQuota]. In the adaptive
// mode a [pace.Pacer] is joined with that, in place of the rate limiter of the SDK:
// it also limits first attempts. So call Policy once for each client, and not for
// each call.
//
// With AWS_NEW_RETRIES_2026=true in the environment, the SDK waits as [AWS2026]
// and has [NewAWSQuota2026]. Policy does not read the environment; set Schedule,
// ByClass, Jitter and Budget of what it returns.
func (r AWSRetry) Policy() (backoff.Policy, error) {
	attempts, notANumber := strconv.ParseInt(cmp.Or(r.MaxAttempts, "0"), 10, 32)
	err := cmp.Or(
		check(notANumber == nil,
			"AWSRetry.MaxAttempts", strconv.Quote(r.MaxAttempts), "a whole number of at most 32 bits"),
		check(r.Mode == "" || r.Mode == "standard" || r.Mode == "adaptive",
			"AWSRetry.Mode", strconv.Quote(r.Mode), `"standard" or "adaptive"`),
	)
	if err != nil {
		return backoff.Policy{}, err
	}
	policy := AWSGoV2Legacy()
	if attempts != 0 {
		policy.MaxAttempts = int(attempts)
	}
	policy.Budget = NewAWSQuota()
	if r.Mode == "adaptive" {
		policy.Budget = backoff.JoinBudgets(policy.Budget, new(pace.Pacer))
	}
	return policy, nil
}
