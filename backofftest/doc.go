// Package backofftest helps to test what plugs into package backoff: a function for each
// of its interfaces says whether an implementation keeps the contract, and [Faulty] does
// to a fleet's store what networks do. It is for tests only, as it imports testing.
//
// Code that merely uses a policy needs none of this. In a bubble of testing/synctest its waits
// take no time and are exact, and [backoff.NoJitter] makes them known:
//
//	func TestSaveIsTriedUntilItSucceeds(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			failures := 2
//			policy := backoff.Policy{Jitter: backoff.NoJitter}
//			began := time.Now()
//			err := policy.Do(t.Context(), func(context.Context) error {
//				if failures--; failures >= 0 {
//					return errors.New("down")
//				}
//				return nil
//			})
//			if took := time.Since(began); err != nil || took != 300*time.Millisecond {
//				t.Errorf("%v after %v", err, took)
//			}
//		})
//	}
//
// A client that dials real connections does not belong in a bubble: give it a
// [net.Pipe], or a function in its place. To test without any wait, give the policy under test a
// Schedule of Constant(0).
package backofftest
