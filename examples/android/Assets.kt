// What needs Android itself: a model that lies in the app's package.
package mote

import android.content.Context

/** Opens an asset where it lies in the APK, without a copy. It must be stored uncompressed:
 *  `androidResources { noCompress += "gguf" }`. */
fun Context.openModelAsset(engine: Engine, name: String): Model =
    assets.openFd(name).use { Model(engine, it.parcelFileDescriptor.fd, it.startOffset, it.length) }
