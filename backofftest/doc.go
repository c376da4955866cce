// Package backofftest tests implementations of the interfaces of package
// backoff: for each interface a function checks that an implementation keeps
// the contract. [Force] runs every retry path of a program once. The package is for
// tests only, since it imports testing.
//
// A test of one policy does not need it. In a bubble of
// testing/synctest its waits take no time and are exact, and [backoff.NoJitter]
// makes them known:
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
// A client that dials real connections does not work in a bubble: give it a
// [net.Pipe], or a function instead of the connection. To test without any
// wait, give the policy under test a Schedule of Constant(0).
package backofftest
