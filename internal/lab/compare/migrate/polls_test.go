package migrate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gobackoff/backoff/poll"
)

type condition = func(context.Context) (bool, error)

// polled polls in virtual time. Each look takes so long. The one with the number
// last ends with done and err.
func polled(t *testing.T, p func(context.Context, condition) error, takes time.Duration, last int, done bool, err error) (r record) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r.err = p(t.Context(), func(context.Context) (bool, error) {
			r.at = append(r.at, time.Since(began))
			time.Sleep(takes)
			if len(r.at) == last {
				return done, err
			}
			return false, nil
		})
	})
	return r
}

const never = 1000

func TestAPollOfKubernetesLooksAtTheSameTimes(t *testing.T) {
	polls := map[string][2]func(context.Context, condition) error{
		"timeout": {k8sTimeout, herePollTimeout}, "cancel": {k8sCancel, herePollCancel}, "exponential": {k8sExponential, herePollSteps},
	}
	for name, p := range polls {
		for last := range 4 {
			was, is := polled(t, p[0], 0, last+1, true, nil), polled(t, p[1], 0, last+1, true, nil)
			require.NoError(t, was.err)
			require.Equal(t, was, is, name)
		}
	}
	require.Equal(t, seconds(0, 1, 3, 7, 15), polled(t, k8sExponential, 0, never, true, nil).at)
	require.Equal(t, seconds(0, 1, 3, 7, 15), polled(t, herePollSteps, 0, never, true, nil).at)
}

func TestAPollOfKubernetesHasNoLastLook(t *testing.T) {
	was := polled(t, k8sTimeout, 0, never, true, nil)
	require.Equal(t, seconds(0, 10, 20, 30, 40, 50), was.at)
	require.ErrorIs(t, was.err, context.DeadlineExceeded)
	is := polled(t, herePollTimeout, 0, never, true, nil)
	require.Equal(t, seconds(0, 10, 20, 30, 40, 50, 55), is.at)
	require.ErrorIs(t, is.err, poll.ErrNotYet)
}

func TestAfterASlowLookKubernetesLooksAgainAtOnce(t *testing.T) {
	require.Equal(t, seconds(0, 12, 24, 36), polled(t, k8sTimeout, 12*time.Second, 4, true, nil).at)
	require.Equal(t, seconds(0, 22, 44), polled(t, herePollTimeout, 12*time.Second, 3, true, nil).at)
}

func TestAnErrorEndsAPollOfKubernetes(t *testing.T) {
	for _, p := range []func(context.Context, condition) error{k8sTimeout, herePollTimeout, k8sExponential, herePollSteps} {
		r := polled(t, p, 0, 2, false, errDown)
		require.Len(t, r.at, 2)
		require.ErrorIs(t, r.err, errDown)
		require.False(t, wait.Interrupted(r.err))
	}
}

// buckets is a client that finds a bucket at the look with the number exists.
type buckets struct {
	looks  []time.Time
	exists int
	err    error // of the other looks
}

func (b *buckets) HeadBucket(context.Context, *s3.HeadBucketInput, ...func(*s3.Options)) (*s3.HeadBucketOutput, error) {
	b.looks = append(b.looks, time.Now())
	time.Sleep(time.Millisecond) // a look that took no time at the end of its time the waiter would repeat for ever
	if len(b.looks) == b.exists {
		return &s3.HeadBucketOutput{}, nil
	}
	return nil, b.err
}

func TestAWaiterOfAWSGivesUpBeforeItsTime(t *testing.T) {
	wait := func(p func(context.Context, s3.HeadBucketAPIClient, *s3.HeadBucketInput) error, b *buckets) (gaps []time.Duration, took time.Duration, err error) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			err = p(t.Context(), b, &s3.HeadBucketInput{})
			took = b.looks[len(b.looks)-1].Sub(began)
			for i := 1; i < len(b.looks); i++ {
				gaps = append(gaps, b.looks[i].Sub(b.looks[i-1]))
			}
		})
		return gaps, took, err
	}
	for range 50 {
		_, took, err := wait(awsWaiter, &buckets{err: &types.NotFound{}})
		require.EqualError(t, err, "exceeded max wait time for BucketExists waiter")
		require.LessOrEqual(t, took, 118*time.Second, "MinDelay before the end at the latest")

		gaps, took, err := wait(herePollBucket, &buckets{err: &types.NotFound{}})
		require.ErrorIs(t, err, poll.ErrNotYet)
		require.Equal(t, 2*time.Minute, took)
		for i, delay := range seconds(2, 4, 8, 16) {
			wait := gaps[i] - time.Millisecond
			require.True(t, delay/2 <= wait && wait <= delay, "%v", gaps)
		}
		for _, p := range []func(context.Context, s3.HeadBucketAPIClient, *s3.HeadBucketInput) error{awsWaiter, herePollBucket} {
			gaps, _, err = wait(p, &buckets{exists: 4, err: &types.NotFound{}})
			require.NoError(t, err)
			require.Len(t, gaps, 3)
			gaps, _, err = wait(p, &buckets{err: errDown})
			require.Empty(t, gaps)
			require.ErrorIs(t, err, errDown)
		}
	}
}
