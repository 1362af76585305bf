package allocator_test

import (
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/tier"
)

// refusing is a tag under a steady flow of requests, all of which have to be
// answered, whose store refuses.
type refusing struct {
	*harness
	t        *testing.T
	rate     float64
	refusals []time.Duration // the times of its requests
}

// during lets requests come for the given time. Its store refuses all loads, or
// grants them.
func (r *refusing) during(d time.Duration, refuses bool) {
	r.t.Helper()
	for end := r.now + d; r.now < end; r.now += time.Duration(float64(time.Second) / r.rate) {
		if o := r.request("order", 1); o.answered != 1 || o.err != nil {
			r.t.Fatalf("after %v: %d answers, %v", r.now, o.answered, o.err)
		}
		r.Tick()
		if !refuses {
			r.grantAll()
			continue
		}
		for _, l := range r.asked {
			r.Refuse(l.Tag, l.Seq, store.ErrExhausted)
			r.refusals = append(r.refusals, r.now)
		}
		r.asked = nil
	}
}

// refused lets requests come until the store has refused a load, and for some
// time after.
func (r *refusing) refused(after time.Duration) {
	r.t.Helper()
	r.refusals = nil
	for end := r.now + time.Hour; len(r.refusals) == 0 && r.now < end; {
		r.during(time.Second, true)
	}
	r.during(after, true)
}

// TestRefusedWhileMemoryLasts: a refused load is requested again while the
// buffer lasts, seldom, and not for every request. So the tag has IDs before
// they are needed once its numbers were raised.
func TestRefusedWhileMemoryLasts(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1, 10, tier.Pick(50., 300)} {
		r := &refusing{harness: order(1000), t: t, rate: rate}
		r.request("order", 1)
		r.grantAll()
		r.during(20*time.Minute, false)
		r.refused(9 * time.Minute)
		if n := len(r.refusals); n < 5 || n > 15 {
			t.Errorf("%v/s: asked %d times in 9 minutes, want 5 to 15", rate, n)
		}
		for i := 2; i < len(r.refusals); i++ {
			pause, before := r.refusals[i]-r.refusals[i-1], r.refusals[i-1]-r.refusals[i-2]
			// As the buffer gets smaller, it is checked more often.
			if pause < min(before*9/10, 30*time.Second) || pause < allocator.DefaultReAsk || pause > 2*time.Minute {
				t.Errorf("%v/s: asked at %v, want pauses that grow, up to a minute or two", rate, r.refusals)
				break
			}
		}
		r.during(3*time.Minute, false)
		if f := r.Figures()[0]; float64(f.Left)/rate < promisedRunway.Seconds() {
			t.Errorf("%v/s: three minutes after the tag was raised %d IDs are in memory, want %v", rate, f.Left, promisedRunway)
		}
		r.refused(5 * time.Minute)
		if n := len(r.refusals); n < 3 || r.refusals[1]-r.refusals[0] > time.Minute {
			t.Errorf("%v/s: refused again later, asked at %v, want short pauses first", rate, r.refusals)
		}
	}
}
