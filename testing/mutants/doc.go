// Command mutants plants bugs and sees whether the tests find them. `make
// mutants` runs it:
//
//	go run ./testing/mutants [-quick] [-run REGEXP] [-p N] [-keep]
//
// Each file in patches is a bug: its description, the promise it breaks, the
// test that has to find it, and the change as a unified diff. To add a bug,
// change the code, see the test fail, and put the output of `git diff -U1`
// under a header like this:
//
//	promise: 1                          of docs/proof.md; several with commas
//	part:    register                   where it is planted
//	bug:     an unknown answer of the register counts as a grant
//	package: ./store/register
//	test:    TestRangesAreDisjointAndAscend     or a part of a test: TestRestoreKilled/mark
//	slow:    yes                        optional: it takes longer than some seconds
//	count:   20                         optional: tries, for a bug that needs luck to be met
//
// The tree is copied as it stands, uncommitted files too, and nothing is
// changed in it. First the tests named have to pass in the copy. Then, for each
// patch, it is applied, its test runs, and it is taken out again. The verdicts:
//
//	found           the test named failed
//	NOT FOUND       it passed
//	TIMED OUT       it hung, which proves nothing
//	DOES NOT BUILD  the patch does not compile any more
//	DOES NOT APPLY  the code around it has changed: plant the bug again
//	NO SUCH TEST    no test of that name ran
//
// Anything but found is a failure of the whole run. -quick leaves out the slow
// bugs.
package main
