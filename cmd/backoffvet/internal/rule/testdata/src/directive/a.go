package directive

func _() {
	/* want "names no rule" */ //backoffvet:ignore
	/* want "no rule \"others\"" */ //backoffvet:ignore others a reason
	/* want "gives no reason" */ //backoffvet:ignore calls
	//backoffvet:ignore calls a reason
}
