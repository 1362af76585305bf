/** The entity of docs/typescript.md. */
import { bigintId, IdworkerId } from "@idworker/client/typeorm"
import { Column, Entity, PrimaryColumn } from "typeorm"

@Entity()
export class CustomerOrder {
  @PrimaryColumn({ type: "bigint", transformer: bigintId })
  @IdworkerId("order")
  id!: bigint

  @Column({ type: "varchar" })
  name!: string
}
