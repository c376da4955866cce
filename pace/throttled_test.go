package pace_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffsql"
	"github.com/gobackoff/backoff/pace"
)

type sqlState string

func (s sqlState) Error() string    { return string(s) }
func (s sqlState) SQLState() string { return string(s) }

type awsCode string

func (c awsCode) Error() string     { return string(c) }
func (c awsCode) ErrorCode() string { return string(c) }

type mysqlError uint16

func (e mysqlError) Error() string { return "mysql" }

func mysqlNumber(err error) uint16 {
	var e mysqlError
	errors.As(err, &e)
	return uint16(e)
}

// Each kind of service has its own error for "too many requests".
func TestAPacerKnowsTheThrottlingErrorsOfAllServices(t *testing.T) {
	mysql := backoffsql.MySQL(mysqlNumber)
	for _, c := range []struct {
		classify backoff.Classifier
		err      error
		paced    bool
	}{
		{nil, sqlState("53300"), true},
		{nil, sqlState("53400"), true},
		{backoffsql.Classify, sqlState("53300"), true},
		{backoffsql.Classify, sqlState("53400"), true},
		{backoffsql.Classify, sqlState("40001"), false},
		{mysql, mysqlError(1040), true},
		{mysql, mysqlError(1203), true},
		{mysql, mysqlError(1226), false}, // a limit of the account, which may be that of the hour
		{mysql, mysqlError(1213), false},
		{nil, awsCode("ThrottlingException"), true},
		{nil, awsCode("RequestLimitExceeded"), true},
		{nil, awsCode("ProvisionedThroughputExceededException"), true},
		{nil, awsCode("SlowDown"), true},
		{nil, awsCode("InternalError"), false},
		{nil, &backoffhttp.StatusError{Code: 429}, true},
		{backoffhttp.Classify, &backoffhttp.StatusError{Code: 429}, true},
		{backoffhttp.Classify, &backoffhttp.StatusError{Code: 503}, false},
		{nil, backoff.RetryAfter(backoff.OfClass(errors.New("soon"), backoff.ClassThrottled), time.Millisecond), true},
		{nil, backoff.RetryAfter(backoff.OfClass(errors.New("in an hour"), backoff.ClassThrottled), time.Hour), false},
	} {
		pacer := new(pace.Pacer)
		policy := &backoff.Policy{MaxAttempts: 1, Budget: pacer, Classify: c.classify}
		require.Error(t, policy.Do(t.Context(), func(context.Context) error { return fmt.Errorf("call: %w", c.err) }))
		perSecond, _ := pacer.Limit()
		require.Equal(t, c.paced, !math.IsInf(perSecond, 1), "%v", c.err)
	}
}
