// Package status says how a whole installation is, as NATS sees it: the same for the status page, for
// idworker status on a terminal, and for idworker status --json. All three show one [Installation], which is
// collected here and nowhere else.
//
// # What is collected
//
//	question                              asked of
//	how are workers and loaders?          $SRV.STATS.idworker-process: worker.AskReports
//	which workers should there be?        the leases of worker IDs
//	which worker IDs are held?            ids_workers, ids_clock: lease.List
//	which templates are there?            ids_config: package templates
//	how far are enrichments?              ids_enrich, and the sources: enrich.List
//	what would doctor say?                package doctor
//	when do numbers run out?              the reports, and the layout: package forecast
//
// Whoever shows a page is one of those that report, and its own report needs no NATS. So a process that has lost its
// server still shows itself, and says that it knows nothing of the others.
//
// # Parts
//
// Each question is bounded by itself, and one that fails hides nothing of the others: what could not be read is in
// [Installation.Unread], with the reason. Before it is asked, it is compared with what the user may do, as far as the
// server tells. So a right that is missing is named at once; asked without it, a question is never answered.
//
// Silence is evidence of nothing. A worker that ought to be there and did not report is listed as silent, with when it
// was last heard of. How many loaders there ought to be, nobody knows.
//
// # Cost
//
// [Shared] has one collection under way at a time, however many people look, and its result is shown for two seconds.
// Without viewers it requests nothing, and closes its connection after half a minute. Each process reports its 500
// busiest tags. A tag that no worker has in memory is not listed. Doctor looks once a minute.
//
// # Who looks
//
// [View] picks what one viewer asked for out of the installation: the tags that match a search, a page of them, busiest
// first. It is taken from memory. So reloading and searching cost NATS nothing.
package status
