// Package recovery raises all tags, restores backups, and imports lists. These
// are the commands of a night on which data was lost, so each is one story in
// three acts:
//
//	evidence, err := recovery.Ask(ctx, site, wish)          // what buckets, processes and files know: values only
//	plan, err := recovery.Make(evidence, wish)             // pure: refuses, and decides how far
//	err = plan.Look(ctx, site)                       // visits each tag, and counts what will become of it
//	// the command prints the plan, and prompts
//	result, err := recovery.Apply(ctx, site, plan, report)
//
// Nothing is written before Apply. A raise, a restore, an import and the folder
// of a stopped server differ only in what fills the plan. A single function, the
// rule of the plan, decides both what the plan shows of a tag and what Apply
// writes.
//
// # The order of the writes
//
// It is the order of docs/proofs/register.md:
//
//	settings, and a marked register   only if the register is missing
//	the mark, and the wait            no loader grants from here on
//	settings                          that are missing
//	entries, then rows                raised; what is missing is put back raised
//	templates, records, clock         that are missing
//	the decision                      after another look at the mark; announced
//	processes                         are waited for until they follow
//	clock bucket, other resources     that are missing
//
// Each step computes what it has to do from what is there, never from what this
// run has done, so a command may be killed anywhere and be run again. There are
// two exceptions. A raise by a number that is repeated after its mark counts from
// entries that the first run has raised: IDs are skipped twice, and none is
// issued twice. And a tag at or above the target is raised by the time since its
// entry was written, which an earlier try has moved: its own raise has covered
// that time.
//
// The files: site.go has where the data is, ask.go the evidence, make.go
// the plan, survey.go its tags, apply.go the writes, follow.go the wait for
// processes, and import.go lists and the switch of the store.
package recovery
